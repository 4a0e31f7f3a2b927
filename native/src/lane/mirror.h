// A lane between two ends that share no memory.
//
// Each end has its own side, as in shared memory, and a *mirror*: private memory with a copy of the peer's
// side. What an end stores in its side goes out as *ranges*, over anything that moves bytes in order, and is
// stored at the same place of the peer's mirror. LaneSender and LaneReceiver work on side and mirror, and
// know no difference.
//
//   range    offset:48 | kind:16    word:64    bytes:64    then that many bytes: what stands behind the word
//
// The end that takes a range stores what is behind the word first, and the word last: so whatever becomes
// visible in a mirror does so as in shared memory, at the points that record_lane.h names.
//
//   extent-shown   the word of the first extent, and all behind it up to the next word. That one is stored as
//                  zero, and does not travel: the sender may write it while the range is on its way
//   buffer-open    an order entry goes out behind the first range of its buffer
//   buffer-free    released[i] goes out when the buffer is given back
//   closed         goes out last
//
// Doorbells and `waiting` are not mirrored: nobody rings. Whoever waits does so where the bytes come in.
//
// The peer's bytes are never trusted: a range must lie in the side, and what is in it the LaneReceiver
// checks.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "lane/record_lane.h"
#include "lwmq/lwmq_tli.h"

namespace lwmq::lane {

// What begins a range, as it travels: little-endian.
struct RangeHead {
  std::uint64_t offset_and_kind;
  std::uint64_t word;
  std::uint64_t bytes;
};
static_assert(sizeof(RangeHead) == 24);

enum class RangeKind : std::uint16_t {
  kExtents = 1,  // a zero word is stored behind the bytes
  kWords = 2,    // nothing is
  kLap = 3,      // the word has 32 bits: an entry of released
};

// What of an end's own side has still to go out. One thread at a time.
class MirrorFeed {
 public:
  // `sides` and `sender`, which has `buffers` of `buffer_bytes` bytes, outlive this. False when memory is
  // short.
  [[nodiscard]] bool init(const Sides& sides, const LaneSender& sender, std::uint32_t buffers,
                          std::uint64_t buffer_bytes, std::uint32_t peer_buffers) noexcept;

  // Behind LaneSender::show and LaneSender::ship of this buffer.
  void shown(const lwmq_tli_buffer& buffer) noexcept { note(buffer, false); }
  void shipped(const lwmq_tli_buffer& buffer) noexcept { note(buffer, true); }
  // For Sides::freed.
  void freed(std::uint32_t index) noexcept;
  // What our header counts goes out, if it has changed.
  void count() noexcept;
  // Behind all that is to go out, our header's `closed` and `unsent` do. Nothing is noted from here on.
  void close() noexcept { is_closed_ = true; }

  // Up to `limit` pieces of memory that go out next, in this order; 0: nothing is left. They stay as they are
  // until `sent` takes them.
  std::size_t pieces(iovec* out, std::size_t limit) noexcept;
  // The first `bytes` of them are on their way.
  void sent(std::uint64_t bytes) noexcept;

 private:
  // Of a buffer.
  struct Slot {
    std::uint64_t shown = 0;  // where the next word goes
    std::uint64_t sent = 0;   // the same, of what went out in this lap; 0: nothing did
    std::uint32_t lap = UINT32_MAX;
    bool ended = false;  // there is an end word at `shown`
    bool is_queued = false;
  };
  // On its way.
  struct Range {
    RangeHead head;
    std::uint64_t own[2];      // the bytes, where they could change on the way
    const std::uint8_t* data;  // where they could not
  };
  // Indices, each in it at most once.
  struct Ring {
    std::unique_ptr<std::uint32_t[]> entries;
    std::uint32_t size = 0;
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    bool init(std::uint32_t entries_max) noexcept;
    void put(std::uint32_t index) noexcept;
    std::uint32_t take() noexcept;
  };

  void note(const lwmq_tli_buffer& buffer, bool ships) noexcept;
  bool begin_range() noexcept;
  bool begin_extents(std::uint32_t index) noexcept;
  bool begin_order() noexcept;
  Range& add(RangeKind kind, std::uint64_t offset, std::uint64_t word, std::uint64_t bytes) noexcept;
  Range& range_at(std::uint32_t number) noexcept { return ranges_[(first_ + number) % kRangesMax]; }
  template <typename T>
  [[nodiscard]] T load(std::uint64_t offset) const noexcept {
    return reinterpret_cast<const std::atomic<T>*>(sides_.own + offset)->load(std::memory_order_relaxed);
  }

  static constexpr std::uint32_t kRangesMax = 16;

  Sides sides_;
  const LaneSender* sender_ = nullptr;
  SideLayout layout_;
  std::unique_ptr<Slot[]> slots_;
  Ring queued_;  // buffers of which more was shown
  Ring freed_;   // of the peer's
  std::unique_ptr<bool[]> is_freed_;
  std::uint64_t orders_ = 0;  // known to us, and sent
  std::uint64_t orders_sent_ = 0;
  std::array<std::uint64_t, 3> counts_{};  // as they went out last
  bool counts_are_due_ = false;
  bool is_closed_ = false;
  bool has_said_so_ = false;
  std::array<Range, kRangesMax> ranges_;  // a ring
  std::uint32_t first_ = 0;
  std::uint32_t count_ = 0;
  std::uint64_t first_sent_ = 0;  // bytes of the first one, with its head
};

// An end's copy of its peer's side. One thread at a time takes what comes in; a LaneReceiver reads beside it.
class Mirror {
 public:
  // `memory`: zeroed, as many bytes as the peer's side has; outlives this. False when memory is short.
  [[nodiscard]] bool init(std::uint8_t* memory, std::uint64_t bytes) noexcept;

  // Where the next bytes that come in are to be put: one or two pieces of memory.
  std::size_t places(iovec out[2]) noexcept;
  // So many were put there. LWMQ_E_CORRUPT, with a text: they are no ranges of a side; nothing more is taken.
  Status came(std::uint64_t bytes) noexcept;

 private:
  Status begin(const RangeHead& head) noexcept;
  void advance(std::uint64_t bytes) noexcept;

  static constexpr std::uint64_t kStagedMax = 16 * kKiB;

  std::uint8_t* memory_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::unique_ptr<std::uint8_t[]> staged_;  // heads, and the bytes of small ranges
  std::uint64_t staged_bytes_ = 0;
  std::uint64_t left_ = 0;  // of the range that is coming in
  std::uint8_t* to_ = nullptr;
  RangeHead head_{};
};

}  // namespace lwmq::lane
