// Reading and writing bytes that travel. Little-endian (the only order of the machines we run on), unaligned.
//
// A Reader copies each number out of what arrived and checks every step; after the first failure it
// stays failed and returns zeros, so that a decoder reads straight down and asks ok() once.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace lwmq {

class ByteReader {
 public:
  ByteReader(const void* data, std::uint64_t bytes) noexcept
      : at_(static_cast<const std::uint8_t*>(data)), left_(bytes) {}

  template <typename T>
  T take() noexcept {
    T value{};
    if (left_ < sizeof(T)) {
      failed_ = true;
      left_ = 0;
      return value;
    }
    std::memcpy(&value, at_, sizeof(T));
    // The bytes may be a peer's, who writes to them now: what was copied and checked must not be loaded
    // again.
    std::atomic_signal_fence(std::memory_order_acq_rel);
    skip(sizeof(T));
    return value;
  }

  // The next `bytes` bytes where they lie; empty and failed when there are fewer.
  std::string_view take_bytes(std::uint64_t bytes) noexcept {
    if (left_ < bytes) {
      failed_ = true;
      left_ = 0;
      return {};
    }
    const std::string_view view(reinterpret_cast<const char*>(at_), bytes);
    skip(bytes);
    return view;
  }

  // A 32-bit length and that many bytes, at most `limit`.
  std::string_view take_text(std::uint64_t limit) noexcept {
    const auto bytes = take<std::uint32_t>();
    if (bytes > limit) failed_ = true;
    return failed_ ? std::string_view{} : take_bytes(bytes);
  }

  [[nodiscard]] bool ok() const noexcept { return !failed_; }
  [[nodiscard]] bool at_end() const noexcept { return !failed_ && left_ == 0; }
  [[nodiscard]] std::uint64_t left() const noexcept { return left_; }

 private:
  void skip(std::uint64_t bytes) noexcept {
    at_ += bytes;
    left_ -= bytes;
  }

  const std::uint8_t* at_;
  std::uint64_t left_;
  bool failed_ = false;
};

class ByteWriter {
 public:
  template <typename T>
  ByteWriter& put(const T& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }

  ByteWriter& put_bytes(const void* data, std::uint64_t bytes) {
    bytes_.append(static_cast<const char*>(data), bytes);
    return *this;
  }

  ByteWriter& put_text(std::string_view text) {
    return put(static_cast<std::uint32_t>(text.size())).put_bytes(text.data(), text.size());
  }

  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace lwmq
