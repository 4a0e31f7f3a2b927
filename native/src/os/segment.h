// Memory shared between processes: sealed memfds.
//
// The owner maps a segment writable and then seals it against shrinking, growing and further writable
// mappings. So a peer can map it read-only and no other way, and can never get SIGBUS. Our segments are not
// inherited over fork.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "os/unique_fd.h"

namespace lwmq::os {

// A range of mapped memory; unmapped at the end, but in a forked child, which has no such mapping.
class Mapping {
 public:
  Mapping() noexcept = default;
  Mapping(void* data, std::uint64_t bytes) noexcept : data_(data), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();

  [[nodiscard]] std::uint8_t* data() const noexcept { return static_cast<std::uint8_t*>(data_); }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  void* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

// A segment of our own.
struct Segment {
  UniqueFd fd;
  Mapping memory;  // writable, zeroed, not yet touched
};

// Makes a sealed segment named `label` in listings. LWMQ_E_NO_MEMORY before it would touch a limit of the
// machine or of a cgroup above us (see memory_budget.h); LWMQ_E_SYSTEM.
Status create_segment(const char* label, std::uint64_t bytes, Segment* out_segment) noexcept;

// Whether to fault all pages in at once: ten times cheaper than one by one, but for pages that will not be
// read.
enum class Populate { kNo, kYes };

// Maps the segment behind `fd`, which somebody sent, read-only. Keeps nothing of `fd`.
// LWMQ_E_CORRUPT: it is no memfd, lacks a seal, or has not the size announced.
Status map_foreign_segment(int fd, std::uint64_t bytes, Populate populate, Mapping* out_mapping) noexcept;

// The checks of map_foreign_segment without the mapping.
Status check_foreign_segment(int fd, std::uint64_t bytes) noexcept;

}  // namespace lwmq::os
