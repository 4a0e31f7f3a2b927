// The windows of one writer, as the endpoint knows them, and how their blocks go back to the writer.
//
// Batches do not pass through the endpoint. A writer publishes where a batch lies in its windows; the
// endpoint tells the readers, which map the window and read there. Three parties decide together when a block
// is written again:
//
//   ledger       the endpoint's page for one pool: ledger[slot] = lap once the log has dropped the batch. It
//                drops only what no reader still has to move past.
//   lease page   a reader's page for one pool: page[slot] = lap while the application holds the batch.
//                Written before the reader says that it has moved past, so before the endpoint can drop.
//   writer       uses a block again when the ledger shows its lap and no living reader's page does.
//
// So the loss of the endpoint ends no lease: a ledger that nobody writes any more frees nothing.
//
// A writer must know of a reader's page before it hears of drops that came after it (introduce). The blocks
// that an expelled reader may still look at are in *quarantine*: they stay out of the ledger until that
// reader has heard, or died.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "stream/lap_page.h"
#include "stream/link.h"
#include "stream/log/log.h"

namespace lwmq::stream {

// Lives as long as a batch of it is in the log.
struct Pool {
  Pool(std::uint64_t pool_number, Link* link) noexcept : number(pool_number), writer(link) {}
  // Keeps what it has inherited for the next writer of this process, unless a reader may still look at it.
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Makes the ledger and shows it to the writer.
  Status make_ledger();
  Status add_window(const wire::Window& record, std::uint32_t pid);
  // Of the window with this index; 0: there is none.
  [[nodiscard]] std::uint64_t bytes_of(std::uint32_t window) const noexcept {
    return window < windows_.size() ? windows_[window].bytes() : 0;
  }
  [[nodiscard]] bool has(const wire::Publish& block) const noexcept;

  // Shows a reader the windows that it has not been shown yet, of which `*shown` counts. LWMQ_E_FULL: the
  // reader does not look now.
  Status show_windows(Link& reader, std::size_t* shown) const;

  // A reader is about to be shown the windows for the first time, and will make a lease page; or it has gone
  // before it was shown any.
  void expect_page() noexcept { ++pages_expected_; }
  void expect_no_page() noexcept { --pages_expected_; }
  // An expected page has come. The writer must look at it before it writes again.
  void introduce(LapPage page, const wire::Lease& record);
  // Lets go of the pages of readers that hold nothing any more.
  void forget_finished();
  // The writer has gone: nobody is told anything any more.
  void lose_writer() noexcept;
  // The writer goes and will not touch these windows of its process again. Batches that are read there stay.
  void inherit(std::string place, std::vector<Window> windows);
  // Goes on telling the writer what it had no room for.
  void tell_writer();
  [[nodiscard]] bool has_untold() const noexcept { return !introductions_.empty() || !held_drops_.empty(); }
  [[nodiscard]] bool has_introductions() const noexcept { return !introductions_.empty(); }

  // The log has dropped the batch in this block.
  void drop(std::uint32_t slot, std::uint32_t lap);
  void set_apart(std::uint32_t slot, std::uint32_t lap);
  void end_quarantine(std::uint32_t slot);

  // Tells a writer that waits for room of drops that it has not heard of.
  void tell_room();
  // The writer waits from now on: for room, or to be read to its end.
  void begin_to_wait() noexcept;

  const std::uint64_t number;
  Link* writer;  // null once the writer has gone
  std::uint64_t window_bytes = 0;
  std::uint32_t sharers = 1;  // readers that hold different batches of it
  LapPage ledger;
  // A writer that waits, and the readers that keep it waiting: see watch.h.
  bool wants_room = false;
  std::uint64_t wanted_bytes = 0;
  std::uint32_t stall_ms = kStallMs;
  std::uint32_t expel_after_ms = 0;  // 0: never
  std::int64_t waits_since_ns = 0;   // 0: it does not wait
  bool held_up_told = false;

 private:
  struct Quarantined {
    std::uint32_t lap = 0;
    std::uint32_t readers = 0;  // expelled ones that may still look at the block
    bool dropped = false;       // by the log
  };

  void give_back(std::uint32_t slot, std::uint32_t lap);
  void store_drop(std::uint32_t slot, std::uint32_t lap);

  std::vector<Window> windows_;
  std::vector<wire::Window> announcements_;  // as readers are told of the windows
  std::uint32_t pages_expected_ = 0;
  std::vector<LapPage> pages_;  // of readers that may still hold something
  std::string place_;           // of `inherited_`: see keep_spare
  std::vector<Window> inherited_;
  std::deque<std::pair<LapPage, wire::Lease>> introductions_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> held_drops_;  // slot, lap
  std::map<std::uint32_t, Quarantined> quarantine_;                  // by slot
  bool drops_unheard_ = false;  // the ledger has changed since the writer was last told to look
};

// ---- Bodies: what the endpoint does with the bytes of a batch ------------------------------------------

// The log has no entry with this body any more.
inline void drop(const Body& body) { body.pool->drop(body.slot, body.lap); }

// Entries that never came into the log.
inline void drop_all(std::vector<StagedEntry>* staged) {
  for (const StagedEntry& one : *staged) drop(one.entry.body);
  staged->clear();
}

// Tells a reader where the batch lies; the pool's windows were shown to it.
Status hand_over(Link& reader, std::uint32_t partition, std::uint64_t seq, const Entry& entry);

}  // namespace lwmq::stream
