// What costs nothing, or little, by itself, on a machine that adds to it now and then.
#pragma once

namespace lwmq {

// The least of up to `tries` measurements. Noise only adds, so that the first which is `enough` is the last.
template <typename Cost, typename Measure>
Cost least_of(int tries, Cost enough, Measure&& measure) {
  Cost least = measure();
  for (int i = 1; i < tries && least > enough; ++i) {
    if (const Cost next = measure(); next < least) least = next;
  }
  return least;
}

}  // namespace lwmq
