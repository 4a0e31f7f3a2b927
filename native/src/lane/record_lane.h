// One direction of a transport over memory: buffers of the sender, filled with records, read in place.
//
// Each side of a transport owns one *side*: a piece of memory that it alone writes and that the peer reads. A
// side carries what its owner sends (order ring, buffers) and what its owner says about the peer's buffers
// (released):
//
//    0         512                16,640              data
//   +---------+------------------+-------------------+-----------+-----------+--
//   | header  | released[4000]   | order[2^k], only  | buffer 0  | buffer 1  | ...
//   +---------+------------------+-------------------+-----------+-----------+--
//
//   buffer     +--- 56 ---+ word | extent ... | word | extent ... | end word |
//              the first extent starts on a cache line; the next one follows it, 8-byte aligned, but starts
//              on a line of its own after an extent of 1 KiB or more
//   word       length:40 | kind:8 | lap:16, zero while nothing is there
//   order[k]   number k+1:32 | lap:16 | buffer+1:16
//   only       zero, or the word of the buffer's only extent, beside order[k]: a buffer that is handed over
//              whole costs the peer only the line of its order, and has no words of its own
//
// The two sides meet at five points:
//
//   extent-shown   sender zeroes the next word, stores this one (release) -> receiver loads it (acquire);
//                  the bytes are there when the word is, and what follows is never an old word.
//                  In a run, the first word is stored last: after the others, and after the zero at the end
//   buffer-open    sender stores order[k] (release) -> receiver loads it (acquire);
//                  the word of the first extent (only, else the first word) is zeroed or written before that
//   buffer-free    receiver stores released[i] = lap (release) -> sender loads it (acquire);
//                  the receiver is done with the bytes before they are written again
//   sleeper        the side that will sleep stores `waiting`, passes a heavy barrier and looks again; the
//                  other side stores its word, then loads `waiting`: one of the two sees the other. The fast
//                  side needs only a compiler barrier if the kernel has membarrier, else a full fence
//   doorbell       the waker adds to its own doorbell, then wakes, once per announced sleep; the sleeper
//                  sleeps on the value that it saw before it announced: a ring for this sleep, however early,
//                  ends it
//
// If the owner dies between any two of its stores, the peer sees an extent or does not: a word is stored
// whole. The peer's bytes are never trusted: indices, laps and lengths are checked here, once, from a private
// copy.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/cache_line.h"
#include "base/limits.h"
#include "base/status.h"
#include "base/yield_point.h"
#include "lane/free_buffers.h"
#include "lwmq/lwmq_tli.h"
#include "os/futex.h"
#include "os/membarrier.h"

namespace lwmq::lane {

struct SideHeader {
  alignas(kCacheLine) std::atomic<std::uint32_t> doorbell;  // rung by the owner's threads to wake the peer
  // Tickets of the owner's receiving and of its sending thread; 0: awake.
  alignas(kCacheLine) std::atomic<std::uint32_t> waiting_extent;
  std::atomic<std::uint32_t> waiting_room;
  alignas(kCacheLine) std::atomic<std::uint32_t> closed;  // 1: the owner has closed in order
  std::atomic<std::uint64_t> unsent;  // written before: messages that it had for the peer, and gave up
  // How many of the peer's extents the owner has released ever, by its landing thread and by others; those
  // that were a buffer's only ones do not count. For the peer's count of what is unread, where it has not got
  // the buffer back; an owner that says nothing here is one of an earlier version.
  alignas(kCacheLine) std::atomic<std::uint64_t> released_landing;
  std::atomic<std::uint64_t> released_others;
  // How many of the peer's extents had landed when the owner last fell asleep for more of them, or armed for
  // them: those were received, who ever holds them. Likewise 0.
  std::atomic<std::uint64_t> received;
};
static_assert(sizeof(SideHeader) <= 512);

// At the beginning of a side that we write.
inline SideHeader& own_header_of(std::uint8_t* side) noexcept { return *reinterpret_cast<SideHeader*>(side); }

struct OrderEntry {
  std::atomic<std::uint64_t> order;
  std::atomic<std::uint64_t> only;
};
static_assert(sizeof(OrderEntry) == 16);

// Where things lie in a side.
struct SideLayout {
  std::uint64_t order_slots = 0;  // power of two, at least `buffers`
  std::uint64_t data_offset = 0;
  std::uint64_t stride = 0;  // from one buffer to the next
  std::uint64_t bytes = 0;   // of the whole side

  static constexpr std::uint64_t kReleasedOffset = 512;
  static constexpr std::uint64_t kOrderOffset = 16640;
  static constexpr std::uint64_t kFirstWord = 56;  // in a buffer: its first extent lies on a cache line
  static constexpr std::uint64_t kWordBytes = 8;

  // `buffers` at most kBuffersMax, `buffer_bytes` at most kBufferBytesMax: the caller has checked.
  static SideLayout of(std::uint32_t buffers, std::uint64_t buffer_bytes) noexcept;
};

// Pokes a peer whose thread waits at a pollable descriptor and not at a futex. False: that cannot be now.
using Poke = bool (*)(void* context);
// Of a mirror (mirror.h): the peer's buffer `index` was given back, and the peer has to be told.
using Freed = void (*)(void* context, std::uint32_t index);

// What both ends of a lane know of the two sides.
struct Sides {
  std::uint8_t* own = nullptr;         // we write
  const std::uint8_t* peer = nullptr;  // we read
  Poke poke = nullptr;                 // wakes the peer at its descriptor; may be null
  Freed freed = nullptr;               // null where both ends share the sides
  void* context = nullptr;             // of both
  bool peer_has_membarrier = true;     // false: its kernel refuses; our fast side pays the fence

  [[nodiscard]] SideHeader& own_header() const noexcept { return own_header_of(own); }
  [[nodiscard]] const SideHeader& peer_header() const noexcept {
    return *reinterpret_cast<const SideHeader*>(peer);
  }
};

// Tells a peer that waits for extents, or for room, that there is something. A load where it is awake.
class Waker {
 public:
  void init(const Sides& sides) noexcept;
  void extent_shown() noexcept {
    if (const std::uint32_t ticket = extent_ticket(); ticket != 0) [[unlikely]]
      answer_extent(ticket);
  }
  // The same in two steps: behind what was shown, the ticket of a peer that waits for it, else 0.
  [[nodiscard]] std::uint32_t extent_ticket() const noexcept {
    return ticket_in(sides_.peer_header().waiting_extent);
  }
  void answer_extent(std::uint32_t ticket) noexcept { answer(ticket, answered_extent_); }
  void buffer_freed() noexcept {
    if (const std::uint32_t ticket = ticket_in(sides_.peer_header().waiting_room); ticket != 0) [[unlikely]]
      answer(ticket, answered_room_);
  }
  // Wakes the peer whatever it waits for: our state has changed.
  void ring() noexcept;
  // The same, where it sleeps in a wait.
  void wake() noexcept;

 private:
  [[nodiscard]] std::uint32_t ticket_in(const std::atomic<std::uint32_t>& waiting) const noexcept {
    LWMQ_YIELD("waker.look");
    // Between our store and our load of the sleeper's word. Without it the load could come first, see an
    // awake peer, and the store be seen by nobody: the lost wake-up. The sleeper's heavy barrier stands in
    // for ours, where it has one and it reaches us.
    os::light_barrier(sleepers_pay_);  // sync: sleeper
    return waiting.load(std::memory_order_relaxed);
  }
  void answer(std::uint32_t ticket, std::atomic<std::uint32_t>& answered) noexcept;

  Sides sides_;
  bool sleepers_pay_ = false;  // both sides have membarrier
  // The last tickets that we rang for: one system call for one sleep.
  std::atomic<std::uint32_t> answered_extent_{0};
  std::atomic<std::uint32_t> answered_room_{0};
};

// The sending end. One thread at a time; unread_extents from any.
class LaneSender {
 public:
  // `sides` outlive this. False when memory is short.
  [[nodiscard]] bool init(const Sides& sides, Waker* waker, std::uint32_t buffers,
                          std::uint64_t buffer_bytes) noexcept;

  Status acquire(lwmq_tli_buffer* out_buffer) noexcept;
  Status show(lwmq_tli_buffer* buffer, std::uint64_t bytes, std::uint32_t kind) noexcept;
  std::uint64_t show_run(lwmq_tli_buffer* buffer, const lwmq_bytes* frames, std::uint64_t count,
                         std::uint32_t kind, std::uint64_t* out_bytes) noexcept;
  void ship(lwmq_tli_buffer* buffer) noexcept;
  Status ship_only(lwmq_tli_buffer* buffer, std::uint64_t bytes, std::uint32_t kind) noexcept;
  void abandon(lwmq_tli_buffer* buffer) noexcept;
  // Takes back what the peer has released, and counts.
  std::uint32_t free_buffers() noexcept;
  // True when acquire would lend one. Cheap: looks at the oldest first.
  bool has_room() noexcept { return free_.has_any() || collect(); }
  [[nodiscard]] std::uint64_t unread_extents() const noexcept;

  // For a mirror: where the next word of a lent buffer goes, and how many order entries were ever stored.
  struct Place {
    std::uint32_t index;
    std::uint32_t lap;
    std::uint64_t position;
  };
  static Place place_of(const lwmq_tli_buffer& buffer) noexcept;
  // Of the buffer that an order entry opens.
  static std::uint32_t buffer_in(std::uint64_t order) noexcept;
  [[nodiscard]] std::uint64_t orders() const noexcept { return next_order_; }

  // From here on buffers are zeroed when they come back: as far as they were filled, or whole where the
  // application writes into them itself.
  void erase_buffers(bool whole) noexcept {
    erases_ = true;
    erases_whole_ = whole;
  }
  // See FreeBuffers.
  void use_fresh_buffers_first() noexcept { free_.use_fresh_first(); }
  // The last call but for abandon, where erase_buffers was one: zeroes what the peer has released, and where
  // it is `gone` and can read no more, everything; what is lent where it does not stay so.
  void erase_rest(bool gone, bool lent_stay) noexcept;

 private:
  struct Slot {
    std::uint64_t used = 0;  // where the last lap ended
    std::uint16_t lap = 0;
    bool opened = false;        // its order entry was stored
    bool only = false;          // of this lap: its one extent is said beside its order
    std::uint64_t extents = 0;  // shown in this lap, once it is shipped
  };

  bool collect() noexcept;
  void open(std::uint32_t index, std::uint64_t only) noexcept;
  // Rare ends of show, which answers what they do: LWMQ_OK.
  Status open_shown(std::uint32_t index) noexcept;
  Status wake(std::uint32_t ticket) noexcept;
  void note_shown(std::uint64_t extents) noexcept {  // our own
    shown_.store(shown_.load(std::memory_order_relaxed) + extents, std::memory_order_relaxed);
  }
  void erase_buffer(std::uint32_t index, std::uint64_t bytes) noexcept;
  [[nodiscard]] std::uint8_t* buffer_at(std::uint32_t index) const noexcept {
    return sides_.own + layout_.data_offset + index * layout_.stride;
  }

  Sides sides_;
  Waker* waker_ = nullptr;
  SideLayout layout_;
  std::uint64_t next_order_ = 0;
  std::unique_ptr<Slot[]> slots_;
  FreeBuffers free_;
  std::unique_ptr<std::uint32_t[]> shipped_;  // shipped and not seen released, in that order
  std::uint32_t shipped_count_ = 0;
  std::uint32_t unread_buffers_ = 0;  // of them, at the last look
  bool erases_ = false;
  bool erases_whole_ = false;
  std::atomic<std::uint64_t> shown_{0};
  // In buffers that have come back, ever: but for only ones, and those.
  std::atomic<std::uint64_t> collected_{0};
  std::atomic<std::uint64_t> collected_only_{0};
};

// The receiving end. land, release_last: one thread at a time; release: any thread.
class LaneReceiver {
 public:
  [[nodiscard]] bool init(const Sides& sides, Waker* waker, std::uint32_t peer_buffers,
                          std::uint64_t peer_buffer_bytes) noexcept;

  // LWMQ_OK, LWMQ_E_EMPTY or LWMQ_E_CORRUPT with a text.
  Status land(lwmq_tli_extent* out_extent) noexcept;
  void release(const std::uint64_t token[2], std::uint32_t count) noexcept;
  // Up to `limit` extents below `bytes_below` bytes that lie in one buffer. What ends them, land says.
  std::uint32_t land_run(std::uint64_t bytes_below, std::uint32_t limit, std::uint64_t out_token[2],
                         lwmq_tli_piece* out_pieces) noexcept;
  // The same for the one that was waited for: the way is short.
  bool land_one(std::uint64_t bytes_below, std::uint64_t out_token[2], lwmq_tli_piece* out_piece) noexcept;
  // Of the extent that landed last, or `count` of the last run, before the next one lands.
  void release_last(const std::uint64_t token[2], std::uint32_t count) noexcept;
  // The landing thread's, before it waits for more: what has landed counts as read at the peer, where `what`
  // it waits for says so.
  void say_received(std::uint32_t what) const noexcept {
    if ((what & (LWMQ_TLI_WAIT_EXTENT | LWMQ_TLI_WAIT_HOLDING)) != LWMQ_TLI_WAIT_EXTENT) return;
    sides_.own_header().received.store(all_landed_, std::memory_order_release);
  }
  // True when land would not answer LWMQ_E_EMPTY: a glance, land decides. The landing thread only. Inline:
  // who waits looks again and again, and what it has seen is on its way while it returns.
  [[nodiscard]] bool has_extent() const noexcept {
    if (buffer_ == nullptr) [[unlikely]]
      return has_next_buffer();
    if (only_ == 0 && word().load(std::memory_order_relaxed) == 0) return false;
    __builtin_prefetch(buffer_ + position_ + kCacheLine);
    return true;
  }

 private:
  [[nodiscard]] const OrderEntry& order_at(std::uint64_t number) const noexcept;
  // Whether an order entry is that of the next buffer, and no older one.
  [[nodiscard]] bool is_next(std::uint64_t entry) const noexcept {
    return entry >> 32 == ((next_order_ + 1) & 0xffffffffu);
  }
  [[nodiscard]] const std::uint8_t* buffer_at(std::uint32_t index) const noexcept {
    return sides_.peer + layout_.data_offset + index * layout_.stride;
  }
  // The word that we wait for in the buffer that we are in: we leave one that has no room for another.
  [[nodiscard]] const std::atomic<std::uint64_t>& word() const noexcept {
    return *reinterpret_cast<const std::atomic<std::uint64_t>*>(buffer_ + position_);
  }
  [[nodiscard]] bool has_next_buffer() const noexcept;
  enum class Here { kExtent, kNothing, kEnd, kCorrupt };
  Here look(std::uint64_t* out_word, lwmq_tli_extent* out_extent) const noexcept;
  Here read(std::uint64_t word, lwmq_tli_extent* out_extent) const noexcept;
  Status land_only(lwmq_tli_extent* out_extent) noexcept;
  bool find_buffer() noexcept;
  bool step_over(std::uint64_t length) noexcept;
  Status corrupt(std::uint64_t word) const noexcept;
  Status open_next() noexcept;
  void leave_buffer() noexcept;
  void give_back(std::uint32_t index, std::uint32_t lap) noexcept;

  Sides sides_;
  Waker* waker_ = nullptr;
  SideLayout layout_;
  std::uint32_t buffers_ = 0;
  std::uint64_t next_order_ = 0;
  const std::uint8_t* buffer_ = nullptr;  // that we are in; null: in none
  std::uint32_t index_ = 0;               // its own
  std::uint32_t lap_ = 0;
  std::uint64_t position_ = 0;  // of the next word in it
  std::uint64_t guessed_length_ = 0;
  std::uint64_t only_ = 0;   // of the buffer that we are in, until it has landed
  std::int64_t landed_ = 0;  // extents of it, less those that release_last took
  std::uint64_t released_landing_ = 0;
  std::uint64_t all_landed_ = 0;
  // By buffer: counts down with each release; what was landed is added when we leave it. Whoever makes it 0
  // then gives the buffer back. Of an only extent 1 until it is released.
  std::unique_ptr<std::atomic<std::int64_t>[]> leases_;
};

// Sleeps until the peer rings for `waiting` or `waiting_too` (words of our own header; the second may be
// null) or one of `others` changes. `ready` is asked again after the barrier; a true answer ends the wait.
// timeout_ns < 0: no limit.
template <typename Ready>
os::WaitResult sleep_until_rung(const Sides& sides, std::atomic<std::uint32_t>& waiting,
                                std::atomic<std::uint32_t>* waiting_too, const os::FutexWord* others,
                                std::size_t others_count, std::int64_t timeout_ns, Ready&& ready) noexcept;

// Marks the calling side as waiting at its descriptor (for pollers); clear_waiting ends it.
void announce_waiting(std::atomic<std::uint32_t>& waiting, bool at_descriptor) noexcept;
inline void clear_waiting(std::atomic<std::uint32_t>& waiting) noexcept {
  waiting.store(0, std::memory_order_relaxed);  // late news cost the waker one system call, no more
}

// What a side has announced at its descriptor, and how often the peer had rung before. Until the peer rings,
// the announcements stand: arming for the same again needs neither a barrier nor a system call. The landing
// thread only, except for `forget`, which a thread that waits for room may call.
class Announced {
 public:
  // Before the announcements.
  void note(const Sides& sides, std::uint32_t what) noexcept {
    what_.store(what, std::memory_order_relaxed);
    rings_ = sides.peer_header().doorbell.load(std::memory_order_acquire);  // sync: doorbell
  }
  void forget() noexcept { what_.store(kNothing, std::memory_order_relaxed); }
  [[nodiscard]] bool stands(const Sides& sides, std::uint32_t what) const noexcept {
    return what_.load(std::memory_order_relaxed) == what &&
           sides.peer_header().doorbell.load(std::memory_order_acquire) == rings_;  // sync: doorbell
  }

 private:
  static constexpr std::uint32_t kNothing = ~std::uint32_t{0};
  std::atomic<std::uint32_t> what_{kNothing};
  std::uint32_t rings_ = 0;
};

inline constexpr std::size_t kOtherWordsMax = 4;

template <typename Ready>
os::WaitResult sleep_until_rung(const Sides& sides, std::atomic<std::uint32_t>& waiting,
                                std::atomic<std::uint32_t>* waiting_too, const os::FutexWord* others,
                                std::size_t others_count, std::int64_t timeout_ns, Ready&& ready) noexcept {
  os::FutexWord words[1 + kOtherWordsMax];
  const auto& doorbell = sides.peer_header().doorbell;
  // Before the announcement: the first ring for it is the only one.
  words[0] = {&doorbell, doorbell.load(std::memory_order_acquire)};  // sync: doorbell
  announce_waiting(waiting, false);  // sync: sleeper (with the heavy barrier inside)
  if (waiting_too != nullptr) announce_waiting(*waiting_too, false);
  for (std::size_t i = 0; i < others_count; ++i) words[1 + i] = others[i];
  os::WaitResult result = os::WaitResult::kChanged;
  LWMQ_YIELD("sleeper.sleep");
  if (!ready()) result = os::futex_wait_any(words, 1 + others_count, timeout_ns);
  clear_waiting(waiting);
  if (waiting_too != nullptr) clear_waiting(*waiting_too);
  return result;
}

}  // namespace lwmq::lane
