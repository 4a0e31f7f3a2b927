// A tape: a file of extents as they passed, which `record` writes and `replay` plays. Little-endian.
//
//    0        8         12           16             24         28    32
//   +--------+---------+------------+--------------+----------+-----+
//   | magic  | version | head_bytes | created_ns   | reserved | crc |      once; crc of the bytes before it
//   +--------+---------+------------+--------------+----------+-----+
//    0     4      5      6          8         16        24          32
//   +-----+------+------+----------+---------+---------+-----------+
//   | crc | kind | way  | reserved | bytes   | time_ns | reserved  |      crc of all that follows it, pad
//   included
//   +-----+------+------+----------+---------+---------+-----------+
//   | bytes ... pad to 8 with zeros                                |      again and again
//   +--------------------------------------------------------------+
//
// time_ns is CLOCK_REALTIME. One write appends one extent whole, so that several processes may record on one
// tape. A tape whose last extent is torn was being written when its process or machine died.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "base/status.h"

namespace lwmq::store {

inline constexpr std::uint64_t kTapeMagic = 0x4550'4154'514d'574c;  // "LWMQTAPE"
inline constexpr std::uint32_t kTapeVersion = 1;

struct TapeHead {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t head_bytes;
  std::uint64_t created_ns;
  std::uint32_t reserved;
  std::uint32_t crc;
};
static_assert(sizeof(TapeHead) == 32 && offsetof(TapeHead, crc) == 28);

struct TapeEntry {
  std::uint32_t crc;
  std::uint8_t kind;
  std::uint8_t way;
  std::uint16_t reserved;
  std::uint64_t bytes;
  std::uint64_t time_ns;
  std::uint64_t reserved2;
};
static_assert(sizeof(TapeEntry) == 32 && offsetof(TapeEntry, bytes) == 8);

// Of one entry. Keeps its memory for the next.
class TapeBytes {
 public:
  // What was there is gone. False: no memory.
  [[nodiscard]] bool resize(std::uint64_t bytes) noexcept {
    if (bytes > room_ || data_ == nullptr) {
      data_.reset(new (std::nothrow) std::uint8_t[bytes]);
      room_ = data_ != nullptr ? bytes : 0;
    }
    size_ = data_ != nullptr ? bytes : 0;
    return data_ != nullptr;
  }
  [[nodiscard]] std::uint8_t* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

 private:
  std::unique_ptr<std::uint8_t[]> data_;
  std::uint64_t room_ = 0;
  std::uint64_t size_ = 0;
};

// Writes to a tape; shared by all that record at one path in this process.
class TapeWriter {
 public:
  // Makes the file, or goes on behind what is there. LWMQ_E_SYSTEM; LWMQ_E_CORRUPT: there is something else.
  static Status open(const std::string& path, std::shared_ptr<TapeWriter>* out_writer);
  // Whether open would do, without making anything.
  static Status check(const std::string& path);
  TapeWriter(const TapeWriter&) = delete;
  TapeWriter& operator=(const TapeWriter&) = delete;
  ~TapeWriter();

  // Any thread. `data` may change under us: it is copied first. False: the disk refuses, or no memory.
  bool append(std::uint32_t kind, std::uint32_t way, const void* data, std::uint64_t bytes);

 private:
  explicit TapeWriter(int fd) noexcept : fd_(fd) {}
  void take_back(std::int64_t written) noexcept;

  const int fd_;
  std::mutex mutex_;
  TapeBytes entry_;
};

// Reads a tape from its begin. Trusts nothing that it says.
class TapeReader {
 public:
  TapeReader() noexcept = default;
  TapeReader(const TapeReader&) = delete;
  TapeReader& operator=(const TapeReader&) = delete;
  ~TapeReader();

  // LWMQ_E_SYSTEM, LWMQ_E_CORRUPT, LWMQ_E_VERSION with a text.
  Status open(const std::string& path);
  // The next extent, and its bytes unless that is null. LWMQ_E_END behind the last. LWMQ_E_CORRUPT says
  // where; *out_torn: the file ends there, within an extent. LWMQ_E_NO_MEMORY: it is next once more.
  Status next(TapeEntry* out_entry, TapeBytes* out_bytes, bool* out_torn);

 private:
  int fd_ = -1;
  std::uint64_t at_ = 0;
  std::uint64_t file_bytes_ = 0;
  std::string path_;
};

}  // namespace lwmq::store
