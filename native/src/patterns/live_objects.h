// All objects of a kind that this process has: for a channel that goes, and with it whoever would look for
// it.
#pragma once

#include <mutex>
#include <type_traits>

#include "os/identity.h"

namespace lwmq::patterns {

// A member of `T`, for as long as that lives. In a forked child the list is the parent's, and perhaps locked.
template <typename T>
class LiveObject {
 public:
  explicit LiveObject(T* self) : self_(self) {
    if (os::forked()) return;
    const std::lock_guard lock(list_.mutex);
    next_ = list_.first;
    if (next_ != nullptr) next_->before_ = this;
    list_.first = this;
  }
  ~LiveObject() {
    if (os::forked()) return;
    const std::lock_guard lock(list_.mutex);
    (before_ != nullptr ? before_->next_ : list_.first) = next_;
    if (next_ != nullptr) next_->before_ = before_;
  }
  LiveObject(const LiveObject&) = delete;
  LiveObject& operator=(const LiveObject&) = delete;

  // None of them ends meanwhile.
  template <typename Do>
  static void for_each(Do&& something) {
    const std::lock_guard lock(list_.mutex);
    for (LiveObject* one = list_.first; one != nullptr; one = one->next_) something(*one->self_);
  }

 private:
  struct List {
    std::mutex mutex;
    LiveObject* first = nullptr;  // guarded by mutex, like the links
  };
  // Never destroyed: channels may be, while the process ends.
  static_assert(std::is_trivially_destructible_v<List>);
  static inline constinit List list_;

  T* const self_;
  LiveObject* next_ = nullptr;
  LiveObject* before_ = nullptr;
};

}  // namespace lwmq::patterns
