// All objects of a kind that this process has: for a channel that goes, and with it whoever would look for
// it.
#pragma once

#include <mutex>
#include <type_traits>

#include "os/identity.h"

namespace lwmq::channel {

// A member of `T`, for as long as that lives. In a forked child the list is the parent's, and perhaps locked.
template <typename T>
class OnRoster {
 public:
  explicit OnRoster(T* self) : self_(self) {
    if (os::forked()) return;
    const std::lock_guard lock(roster_.mutex);
    next_ = roster_.first;
    if (next_ != nullptr) next_->before_ = this;
    roster_.first = this;
  }
  ~OnRoster() {
    if (os::forked()) return;
    const std::lock_guard lock(roster_.mutex);
    (before_ != nullptr ? before_->next_ : roster_.first) = next_;
    if (next_ != nullptr) next_->before_ = before_;
  }
  OnRoster(const OnRoster&) = delete;
  OnRoster& operator=(const OnRoster&) = delete;

  // None of them ends meanwhile.
  template <typename Do>
  static void for_each(Do&& something) {
    const std::lock_guard lock(roster_.mutex);
    for (OnRoster* one = roster_.first; one != nullptr; one = one->next_) something(*one->self_);
  }

 private:
  struct Roster {
    std::mutex mutex;
    OnRoster* first = nullptr;  // guarded by mutex, like the links
  };
  // Never destroyed: channels may be, while the process ends.
  static_assert(std::is_trivially_destructible_v<Roster>);
  static inline constinit Roster roster_;

  T* const self_;
  OnRoster* next_ = nullptr;
  OnRoster* before_ = nullptr;
};

}  // namespace lwmq::channel
