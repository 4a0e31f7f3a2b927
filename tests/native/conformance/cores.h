// The cores that this process may use, and a thread on one of them.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

namespace lwmq::conformance {

inline int cores() {
  cpu_set_t may;
  sched_getaffinity(getpid(), sizeof may, &may);
  return CPU_COUNT(&may);
}

// From here on the calling thread, which is not the main one, runs on the one at `place`, from 0.
inline void stay_on(int place) {
  cpu_set_t may, only;
  CPU_ZERO(&only);
  sched_getaffinity(getpid(), sizeof may, &may);  // the main thread's
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &may) && place-- == 0) CPU_SET(core, &only);
  }
  pthread_setaffinity_np(pthread_self(), sizeof only, &only);
}

}  // namespace lwmq::conformance
