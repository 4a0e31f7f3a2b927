// The log of one partition: batches by sequence number, and what keeps each of them there. It knows nothing
// of transports, memory or time; tests/native/stream/log_test.cc tests it as a table.
//
// An entry is *pinned* while it is handed to readers that have not moved past it, *consumed* by readers that
// have, and *acknowledged* by some of their names. It leaves the log when retention is satisfied and nobody
// needs it (released), or under memory pressure once it was consumed (evicted). The log begins at first_seq;
// below it there is nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lwmq/lwmq.h"
#include "wire/stream_messages.h"

namespace lwmq::stream {

struct Pool;      // a writer's conversation with its windows, see endpoint.h
struct Producer;  // who wrote it

struct Entry {
  struct Reader {
    std::uint32_t name;  // by number
    bool acknowledged;
  };

  std::shared_ptr<Pool> pool;
  std::shared_ptr<Producer> producer;
  wire::Publish block{};
  std::uint64_t arrival = 0;        // order over all partitions
  std::uint32_t handed_out = 0;     // handed out and not yet moved past
  std::vector<Reader> consumed_by;  // who has moved past it, each name once
  bool gone = false;                // released or evicted; only entries in the middle stay as marks
  bool evicted = false;

  [[nodiscard]] std::size_t consumed() const noexcept { return consumed_by.size(); }
  [[nodiscard]] std::size_t acknowledged() const noexcept;
  [[nodiscard]] bool is_acknowledged_by(std::uint32_t name) const noexcept;
  // False: it had before.
  bool note_consumed(std::uint32_t name);
  // As if `name` had never moved past it. False: it had not.
  bool forget(std::uint32_t name);
  // By a name that has consumed it.
  void acknowledge(std::uint32_t name) noexcept;
};

class PartitionLog {
 public:
  std::uint64_t append(Entry entry);

  [[nodiscard]] std::uint64_t first_seq() const noexcept { return first_; }
  [[nodiscard]] std::uint64_t next_seq() const noexcept { return first_ + entries_.size(); }
  // Null when the number is below the log, above it, or its entry has gone.
  [[nodiscard]] Entry* find(std::uint64_t seq) noexcept;
  // Lowest number at or above `seq` whose entry is there; next_seq when none is.
  [[nodiscard]] std::uint64_t next_present(std::uint64_t seq) const noexcept;
  // True when an entry in [from, to) was evicted, or fell below the log.
  [[nodiscard]] bool lost_between(std::uint64_t from, std::uint64_t to) const noexcept;
  // Lowest entry present that `name` has not acknowledged and that fewer than `acks_needed` names have.
  [[nodiscard]] std::uint64_t lowest_unacked(std::optional<std::uint32_t> name,
                                             std::uint32_t acks_needed) const noexcept;

  // Removes the entry; `evicted` remembers that nobody had acknowledged it.
  void remove(std::uint64_t seq, bool evicted);
  // Entries that are there, for sums over them.
  template <typename Visit>
  void for_each(Visit&& visit) {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (!entries_[i].gone && !visit(first_ + i, entries_[i])) return;
    }
  }

 private:
  std::deque<Entry> entries_;
  std::uint64_t first_ = 0;
};

}  // namespace lwmq::stream
