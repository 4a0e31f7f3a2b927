// The writer's memory: windows, cut into blocks. A block is used again when the endpoint has dropped it and
// nobody leases it.
//
// Blocks have 8 sizes per doubling (at most an eighth is wasted). The block freed last is used first: it is
// still in the cache, and touching fresh memory costs as much as ten copies. For the same reason a writer
// waits a moment for readers that keep up before it has more than a few MiB in flight
// (wants_readers_first). A window whose blocks are all free may be cut anew for other sizes, or given back.
//
//   block-dropped   endpoint stores ledger[slot] = lap (release) -> we load it (acquire)
//                   the readers' leases of this lap were on their pages before
//   block-leased    reader stores page[slot] = lap, later 0 (release) -> we load it (acquire)
//                   the reader is done with the bytes before they are written again
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "lwmq/lwmq.h"
#include "lwmq/lwmq_tli.h"
#include "stream/block_hold.h"
#include "stream/kept_windows.h"
#include "stream/lap_page.h"
#include "wire/stream_messages.h"

namespace lwmq::stream {

class WindowPool {
 public:
  // Takes in the lease pages of which the endpoint has told (see reclaim). False: not all of them.
  using News = bool (*)(void* context);

  WindowPool(const lwmq_tli_provider* provider, const std::string& address, News news, void* news_context)
      : provider_(provider), place_(place_of(address)), news_(news), news_context_(news_context) {}
  ~WindowPool();
  WindowPool(const WindowPool&) = delete;
  WindowPool& operator=(const WindowPool&) = delete;

  // Once.
  void set_ledger(LapPage ledger) noexcept { ledger_ = std::move(ledger); }
  [[nodiscard]] bool has_ledger() const noexcept { return static_cast<bool>(ledger_); }
  [[nodiscard]] const LapPage& ledger() const noexcept { return ledger_; }
  [[nodiscard]] const std::string& place() const noexcept { return place_; }
  void add_lease_page(LapPage page) { lease_pages_.push_back(std::move(page)); }

  // A block of at least `bytes` bytes, within `limit_bytes` of windows. LWMQ_E_FULL: not now, there is no
  // room or no slot. *out_new_window: the index of a window that was made for it and must be announced first,
  // or -1.
  Status allocate(std::uint64_t bytes, std::uint64_t limit_bytes, lwmq_block* out_block,
                  std::int64_t* out_new_window);
  // What caches hold of a writer and its readers while a block of `bytes` is written.
  [[nodiscard]] static std::uint64_t working_set(std::uint64_t bytes) noexcept;
  // A further block of `bytes` would pass the working set, and readers have not been found to be behind.
  [[nodiscard]] bool wants_readers_first(std::uint64_t bytes);
  // While they are, wants_readers_first answers false. Readers that have caught up are behind no more.
  void set_readers_behind(bool behind) noexcept { readers_are_behind_ = behind; }
  // The block is the endpoint's: fills in where it lies. False when the block is not one that we lent.
  // `staged`: the block stays its writer's own until settle_staged.
  bool publish(const lwmq_block& block, bool staged, wire::Publish* out_record);
  // What was staged is committed or given up: the endpoint frees it like everything else.
  void settle_staged() noexcept;
  // In windows with a block that is lent or staged. No reader can free these windows: only the writer can.
  [[nodiscard]] std::uint64_t own_bytes() const noexcept;
  // Gives a lent block back.
  bool discard(const lwmq_block& block);
  // Until the hold ends, a lent block is not used again, whatever becomes of it. What was lent and has
  // neither been published nor discarded by then goes back. Null: no block that we lent, one that is held, or
  // no memory.
  lwmq_hold* hold(const lwmq_block& block);
  // At the end: leaves windows that nobody reads any more for the next writer of this process. Returns those
  // of which batches may still be read, and nothing else is needed.
  std::vector<Window> keep_spares();
  // Takes back what was lent and neither published nor discarded: its writer is gone. What is held stays
  // where it is until its hold ends.
  void discard_lent();

  [[nodiscard]] const Window& window(std::size_t index) const noexcept { return segments_[index].window; }
  [[nodiscard]] std::uint64_t window_bytes() const noexcept { return window_bytes_; }
  // In blocks that are lent or in flight.
  [[nodiscard]] std::uint64_t used_bytes() const noexcept { return used_bytes_; }
  [[nodiscard]] std::uint64_t in_flight() const noexcept { return in_flight_.size(); }
  // False while kFinishedSlot blocks exist: no further one can be cut.
  [[nodiscard]] bool has_slot() const noexcept;
  // A reader that was expelled may still look at the block: it is not used again before the ledger says so.
  void quarantine(std::uint32_t slot) noexcept;
  // In blocks set apart for expelled readers and, where `leased` says so, in blocks that only leases hold.
  [[nodiscard]] std::uint64_t quarantined_bytes(bool leased);
  // What stands in the way.
  struct Holders {
    std::uint64_t nobody = 0;     // dropped and let go since the last look: there is room
    std::uint64_t unread = 0;     // batches that the endpoint has not dropped
    std::uint64_t leased = 0;     // dropped, and still leased
    std::uint32_t leased_by = 0;  // process of one of their readers
    std::uint64_t lent = 0;       // not published yet, or only held
  };
  Holders holders();
  // That have been introduced, live, and have not let go of everything.
  struct Readers {
    std::uint32_t count = 0;
    std::uint32_t pid = 0;  // of one of them
  };
  [[nodiscard]] Readers readers() const;

 private:
  struct Segment {
    Window window;             // null: given back; its index is not used again
    std::uint64_t cut = 0;     // blocks were cut from below here
    std::uint32_t live = 0;    // blocks lent or in flight
    std::uint32_t lent = 0;    // of these: lent
    std::uint32_t staged = 0;  // of those in flight: staged by the present writer
  };
  struct Slot {
    std::uint32_t segment = 0, size_class = 0, lap = 0;
    bool lent = false;
    bool dropped = false;  // by the endpoint, as reclaim has just seen
    bool quarantined = false;
    std::uint64_t offset = 0;
    lwmq_hold* hold = nullptr;  // until it is put back
  };

  bool take_free(std::uint32_t size_class, lwmq_block* out_block);
  bool cut(std::uint32_t size_class, lwmq_block* out_block);
  void lend(std::uint32_t slot, lwmq_block* out_block);
  bool recut();
  Status make_window(std::uint64_t bytes, std::uint64_t bytes_max, Window* out_window);
  Status grow(std::uint64_t bytes, std::uint64_t limit_bytes, std::int64_t* out_new_window);
  bool reclaim(std::size_t look_at);
  void put_back(std::uint32_t slot);
  void take_back_let_go();
  void end_loan(Slot& slot) noexcept;
  [[nodiscard]] const LapPage* lease_of(std::uint32_t slot);
  [[nodiscard]] bool is_held(std::uint32_t slot) const noexcept;
  bool owns(const lwmq_block& block) const noexcept;

  const lwmq_tli_provider* provider_;
  const std::string place_;  // of spare windows
  const News news_;
  void* const news_context_;
  LapPage ledger_;                    // the endpoint writes it
  std::vector<LapPage> lease_pages_;  // readers write them
  std::vector<Segment> segments_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> unused_slots_;
  std::vector<std::vector<std::uint32_t>> free_;  // by size class, stacks of slots
  std::deque<std::uint32_t> in_flight_;           // oldest first
  std::vector<std::uint32_t> held_;               // slots with a hold that are not in flight
  std::uint64_t window_bytes_ = 0;
  std::uint64_t used_bytes_ = 0;
  bool readers_are_behind_ = false;
};

}  // namespace lwmq::stream
