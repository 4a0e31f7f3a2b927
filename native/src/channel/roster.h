// All objects of a kind that this process has: for a channel that goes, and with it whoever would look for
// it.
#pragma once

#include <mutex>
#include <vector>

#include "os/identity.h"

namespace lwmq::channel {

// A member of `T`, for as long as that lives. In a forked child the list is the parent's, and perhaps locked.
template <typename T>
class OnRoster {
 public:
  explicit OnRoster(T* self) : self_(self) {
    if (os::forked()) return;
    const std::lock_guard lock(roster().mutex);
    roster().all.push_back(self);
  }
  ~OnRoster() {
    if (os::forked()) return;
    const std::lock_guard lock(roster().mutex);
    std::erase(roster().all, self_);
  }
  OnRoster(const OnRoster&) = delete;
  OnRoster& operator=(const OnRoster&) = delete;

  // None of them ends meanwhile.
  template <typename Do>
  static void for_each(Do&& something) {
    const std::lock_guard lock(roster().mutex);
    for (T* one : roster().all) something(*one);
  }

 private:
  struct Roster {
    std::mutex mutex;
    std::vector<T*> all;  // guarded by mutex
  };
  // Never destroyed: channels may be, while the process ends.
  static Roster& roster() {
    static auto* const instance = new Roster;
    return *instance;
  }

  T* const self_;
};

}  // namespace lwmq::channel
