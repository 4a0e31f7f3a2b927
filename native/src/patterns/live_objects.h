// A list of all living objects of one type in this process. A channel that is about to be destroyed walks the
// lists of selectors, routers and requests, and each of them lets go of the channel.
#pragma once

#include <mutex>
#include <type_traits>

#include "os/identity.h"

namespace lwmq::patterns {

// A member of `T` that keeps it on the list. In a forked child this does nothing: the list is the parent's,
// and a thread of the parent may hold its lock.
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

  // Calls `act` for each living object. No object is destroyed before this returns.
  template <typename Act>
  static void for_each(Act&& act) {
    const std::lock_guard lock(list_.mutex);
    for (LiveObject* one = list_.first; one != nullptr; one = one->next_) act(*one->self_);
  }

 private:
  struct List {
    std::mutex mutex;
    LiveObject* first = nullptr;  // guarded by mutex, like the links
  };
  // Never destroyed: a channel may be destroyed while the process ends.
  static_assert(std::is_trivially_destructible_v<List>);
  static inline constinit List list_;

  T* const self_;
  LiveObject* next_ = nullptr;
  LiveObject* before_ = nullptr;
};

}  // namespace lwmq::patterns
