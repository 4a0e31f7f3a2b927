// The distance at which two threads stop disturbing each other. Ours, because the library's constant follows
// compiler flags and the layout of shared memory must not.
#pragma once

#include <cstddef>

namespace lwmq {

inline constexpr std::size_t kCacheLine = 64;

}  // namespace lwmq
