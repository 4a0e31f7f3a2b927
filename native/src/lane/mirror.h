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
// A *push* goes the same way, and not into the mirror: its range says the number of a *grant* for its word,
// an offset in that grant, and the bytes, which land in memory that the other end has granted.
//
//   pushed         the bytes of a push are stored before the words of all ranges behind it. Pushes go out
//                  before anything else that waits to: a range takes with it what was shown up to the moment
//                  in which it begins, so one that begins with a push still waiting could overtake that
//   revoked        whoever stores into granted memory has it in hand, from `places` to `came`; a revoke waits
//                  until it is put back, and from then on the bytes of that grant are thrown away
//
// The number of a grant is a place in a table and a generation. It need not be a secret: only this peer's
// ranges reach the table, and all grants there are its own. Each use of a place has another generation, so a
// peer that is late hits no later grant, and we tell a grant that was from one that never was for as long as
// the transport lives, without remembering any.
//
// LaneSender::ship_only is for shared memory alone: here its bytes would not go out, and `only` stays 0. What
// the peer has sent stays in the mirror until something else is: a provider with a mirror cannot promise
// LWMQ_CAN_ERASE.
//
// Doorbells and `waiting` are not mirrored: nobody rings. Whoever waits does so where the bytes come in.
//
// The peer's bytes are never trusted: a range must lie in the side, and what is in it the LaneReceiver
// checks.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/limits.h"
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
  kPush = 4,     // the word is the number of a grant, and the offset one in that
};

// What is in the 32 bytes of a grant.
struct GrantBytes {
  std::uint64_t number;  // generation:48 | place:16
  std::uint64_t bytes;
  std::uint64_t zero[2];
};
static_assert(sizeof(GrantBytes) == sizeof(lwmq_tli_grant));

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
  // LWMQ_E_FULL, LWMQ_E_TOO_BIG, LWMQ_E_INVALID, LWMQ_E_NO_MEMORY; as lwmq_tli.h says of push.
  Status push(const lwmq_tli_grant& grant, std::uint64_t offset, const lwmq_bytes* pieces,
              std::uint32_t count, std::uint64_t token) noexcept;
  // The pieces of the `count` oldest pushes that were sent are no longer read.
  void finished(std::uint32_t count) noexcept { pushes_finished_ += count; }
  // The tokens of finished pushes; returns how many.
  std::uint32_t reap(std::uint64_t* out_tokens, std::uint32_t limit) noexcept;
  [[nodiscard]] bool has_finished() const noexcept { return pushes_reaped_ != pushes_finished_; }
  [[nodiscard]] bool has_unfinished() const noexcept { return pushes_finished_ != pushes_noted_; }
  // Nothing goes out any more, and all pushes are finished.
  void give_up() noexcept;
  // What our header counts goes out, if it has changed.
  void count() noexcept;
  // Behind all that is to go out, our header's `closed` and `unsent` do. Nothing is noted from here on.
  void close() noexcept { state_ = std::max(state_, State::kCloses); }

  // Up to `limit` pieces of memory that go out next, in this order; 0: nothing is left. They stay as they are
  // until `sent` takes them.
  std::size_t pieces(iovec* out, std::size_t limit) noexcept;
  // The first `bytes` of them are on their way. Returns how many pushes went with them to their end. Whoever
  // still reads the pieces of those (a delay, a kernel that copies nothing) says later that they are
  // `finished`.
  [[nodiscard]] std::uint32_t sent(std::uint64_t bytes) noexcept;

 private:
  enum class State { kOpen, kCloses, kOver };  // over: no range begins any more
  // Of a buffer.
  struct Slot {
    std::uint64_t shown = 0;  // where the next word goes
    std::uint64_t sent = 0;   // the same, of what went out in this lap; 0: nothing did
    std::uint32_t lap = UINT32_MAX;
    bool ended = false;  // there is an end word at `shown`
    bool is_queued = false;
  };
  struct Push {
    RangeHead head;
    std::uint64_t token;
    std::uint32_t count;
    std::array<lwmq_bytes, LWMQ_TLI_PUSH_PIECES_MAX> pieces;
  };
  // On its way.
  struct Range {
    RangeHead head;
    std::uint64_t own[2];      // the bytes, where they could change on the way
    const std::uint8_t* data;  // where they could not
    const Push* push;          // whose pieces are the bytes; null: `data` is
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
  bool begin_push() noexcept;
  bool begin_extents(std::uint32_t index) noexcept;
  bool begin_order() noexcept;
  Range& add(RangeKind kind, std::uint64_t offset, std::uint64_t word, std::uint64_t bytes) noexcept;
  Push& push_at(std::uint64_t number) noexcept { return pushes_[number % kPushesMax]; }
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
  State state_ = State::kOpen;
  // Pushes are numbered. Each of these counts those that have come so far, and none is before the next one.
  std::uint64_t pushes_reaped_ = 0;
  std::uint64_t pushes_finished_ = 0;
  std::uint64_t pushes_begun_ = 0;
  std::uint64_t pushes_noted_ = 0;
  std::unique_ptr<Push[]> pushes_;        // a ring; made by the first push
  std::array<Range, kRangesMax> ranges_;  // a ring
  std::uint32_t first_ = 0;
  std::uint32_t count_ = 0;
  std::uint64_t first_sent_ = 0;  // bytes of the first one, with its head
};

// An end's copy of its peer's side, and what the peer may write to beside it. One thread at a time takes what
// comes in; a LaneReceiver reads beside it. grant and revoke: any thread.
class Mirror {
 public:
  // `memory`: zeroed, as many bytes as the peer's side has; outlives this. False when memory is short.
  [[nodiscard]] bool init(std::uint8_t* memory, std::uint64_t bytes) noexcept;

  // Where the next bytes that come in are to be put: one or two pieces of memory. Behind each call comes one
  // of `came`, with 0 bytes where none were there, and nothing between the two waits for the peer: a revoke
  // may wait for it.
  std::size_t places(iovec out[2]) noexcept;
  // So many were put there. LWMQ_E_CORRUPT, with a text: they are no ranges of a side; nothing more is taken.
  Status came(std::uint64_t bytes) noexcept;

  // The peer may push to these bytes. LWMQ_E_FULL, LWMQ_E_NO_MEMORY.
  Status grant(std::uint8_t* base, std::uint64_t bytes, lwmq_tli_grant* out_grant) noexcept;
  // Nothing lands there any more; waits until it is not in hand. Of what is no grant: nothing.
  void revoke(const lwmq_tli_grant& grant) noexcept;

 private:
  // A place in the table of grants.
  struct Granted {
    std::uint8_t* base = nullptr;  // null: nobody has it now
    std::uint64_t bytes = 0;
    std::uint64_t generation = 0;  // of the last grant here; 0: there was none
  };

  Status begin(const RangeHead& head) noexcept;
  Status begin_push(const RangeHead& head) noexcept;
  bool take_in_hand() noexcept;
  void put_back() noexcept;
  [[nodiscard]] bool is_push() const noexcept;
  [[nodiscard]] Granted* granted(std::uint64_t number) noexcept;
  static bool is_current(const Granted& place, std::uint64_t number) noexcept;
  void advance(std::uint64_t bytes) noexcept;

  static constexpr std::uint64_t kStagedMax = 16 * kKiB;

  std::uint8_t* memory_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::unique_ptr<std::uint8_t[]> staged_;  // heads, and the bytes of small ranges
  std::uint64_t staged_bytes_ = 0;
  std::uint64_t left_ = 0;  // of the range that is coming in
  std::uint8_t* to_ = nullptr;
  RangeHead head_{};
  bool is_thrown_away_ = false;  // the range that is coming in: its grant was revoked

  std::mutex grants_mutex_;  // guards what follows
  std::condition_variable was_put_back_;
  std::unique_ptr<Granted[]> grants_;  // made by the first grant
  std::uint32_t grants_used_ = 0;      // places that ever were
  std::uint64_t in_hand_ = 0;          // the number of the grant that the reader stores into; 0: none
};

}  // namespace lwmq::lane
