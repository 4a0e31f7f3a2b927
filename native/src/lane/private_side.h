// A side of a lane in memory of this process alone, zeroed. What is not used costs no memory.
#pragma once

#include <sys/mman.h>

#include <cstdint>

namespace lwmq::lane {

class PrivateSide {
 public:
  PrivateSide() noexcept = default;
  PrivateSide(const PrivateSide&) = delete;
  PrivateSide& operator=(const PrivateSide&) = delete;
  ~PrivateSide() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }

  // Once. False: no memory.
  [[nodiscard]] bool make(std::uint64_t bytes) noexcept {
    void* const made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) return false;
    data_ = static_cast<std::uint8_t*>(made);
    bytes_ = bytes;
    return true;
  }
  [[nodiscard]] std::uint8_t* data() const noexcept { return data_; }

 private:
  std::uint8_t* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace lwmq::lane
