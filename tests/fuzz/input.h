// What a fuzzer made up, taken apart from the front: numbers, choices, bytes. Behind the end everything is
// zero.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace lwmq::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t bytes) noexcept : at_(data), left_(bytes) {}

  [[nodiscard]] bool empty() const noexcept { return left_ == 0; }

  template <typename T>
  T take() noexcept {
    T value{};
    const std::size_t bytes = std::min(sizeof value, left_);
    if (bytes > 0) std::memcpy(&value, at_, bytes);
    at_ += bytes;
    left_ -= bytes;
    return value;
  }

  std::string take_bytes(std::size_t bytes) {
    bytes = std::min(bytes, left_);
    std::string out(reinterpret_cast<const char*>(at_), bytes);
    at_ += bytes;
    left_ -= bytes;
    return out;
  }

  std::string rest() { return take_bytes(left_); }

 private:
  const std::uint8_t* at_;
  std::size_t left_;
};

// Reads the first and the last byte, for a sanitizer or a fault to tell.
inline void touch(const std::uint8_t* bytes, std::uint64_t count) noexcept {
  if (count == 0) return;
  [[maybe_unused]] volatile std::uint8_t seen = bytes[0];
  seen = bytes[count - 1];
}

// An invariant of the target. Aborts, which libFuzzer takes for a crash.
inline void require(bool holds, const char* what) noexcept {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

}  // namespace lwmq::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes);
