// All objects of a kind that this process has: for a channel that goes, and with it whoever would look for
// it.
#pragma once

#include <algorithm>
#include <mutex>
#include <vector>

namespace lwmq::channel {

// A member of `T`, for as long as that lives.
template <typename T>
class OnRoster {
 public:
  explicit OnRoster(T* self) : self_(self) {
    const std::lock_guard lock(mutex_);
    all_.push_back(self);
  }
  ~OnRoster() {
    const std::lock_guard lock(mutex_);
    all_.erase(std::find(all_.begin(), all_.end(), self_));
  }
  OnRoster(const OnRoster&) = delete;
  OnRoster& operator=(const OnRoster&) = delete;

  // None of them ends meanwhile.
  template <typename Do>
  static void for_each(Do&& something) {
    const std::lock_guard lock(mutex_);
    for (T* one : all_) something(*one);
  }

 private:
  static inline std::mutex mutex_;
  static inline std::vector<T*> all_;  // guarded by mutex_
  T* const self_;
};

}  // namespace lwmq::channel
