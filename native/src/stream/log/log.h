// The log of a stream: batches by partition and sequence number, and what keeps each of them there. Knows no
// transport, no memory and no time; tests/native/stream/log_test.cc calls it as a table.
//
// An entry is *held* by the readers that were handed it and have not moved past it. It was *consumed* by the
// readers that have, and *acknowledged* by names of such readers. It leaves the log when retention is
// satisfied and no reader needs it (released), or under memory pressure once it was consumed (evicted). Who
// needs it, readers.h decides. A partition begins at first_seq; below there is nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "lwmq/lwmq.h"
#include "stream/log/body.h"

namespace lwmq::stream {

// What the others of a stream must hear of once a message of one client was handled. Parts set it, the stream
// acts.
struct News {
  bool declared = false;
  bool for_readers = false;  // batches were appended, or a producer has ended
  bool for_writers = false;  // something was read to its end
  bool reader_moved = false;
};

// A writer by itself, or a job of many writers.
struct Producer {
  std::string name;  // of the job, or where the writer's process is
  bool open = true;
  std::uint64_t visible = 0;     // batches that readers could see
  std::uint64_t unconsumed = 0;  // of these, not yet read by as many readers as the stream asks for
  std::string loss;              // what went with readers that had not finished; empty: nothing
};

struct Entry {
  struct Reader {
    std::uint32_t name;  // by number
    bool acknowledged;
  };

  Body body;
  std::shared_ptr<Producer> producer;
  std::uint64_t bytes = 0, rows = 0, timestamp_ns = 0;
  std::uint32_t flags = 0;          // LWMQ_BATCH_*
  std::uint32_t holders = 0;        // readers that were handed the entry and have not moved past it
  std::uint64_t arrival = 0;        // order over all partitions
  std::vector<Reader> consumed_by;  // each name once
  bool gone = false;                // released or evicted; such an entry stays only between others
  bool evicted = false;

  [[nodiscard]] std::size_t consumed() const noexcept { return consumed_by.size(); }
  [[nodiscard]] std::size_t acknowledged() const noexcept;
  [[nodiscard]] bool is_acknowledged_by(std::uint32_t name) const noexcept;
  // False: this name had consumed it before.
  bool note_consumed(std::uint32_t name);
  // By a name that has consumed it.
  void acknowledge(std::uint32_t name) noexcept;
  // As if `name` had never moved past the entry. False: it had not.
  bool forget(std::uint32_t name);
};

// An entry that is to come into a partition once it is committed.
struct StagedEntry {
  std::uint32_t partition;
  Entry entry;
};

class PartitionLog {
 public:
  std::uint64_t append(Entry entry);

  [[nodiscard]] std::uint64_t first_seq() const noexcept { return first_; }
  [[nodiscard]] std::uint64_t next_seq() const noexcept { return first_ + entries_.size(); }
  // Null when the number is below the log, above it, or its entry has gone.
  [[nodiscard]] Entry* find(std::uint64_t seq) noexcept;
  // The lowest number at or above `seq` whose entry is there; next_seq when there is none.
  [[nodiscard]] std::uint64_t next_present(std::uint64_t seq) const noexcept;
  // True when an entry in [from, to) was evicted, or fell below the log.
  [[nodiscard]] bool lost_between(std::uint64_t from, std::uint64_t to) const noexcept;

  // How many names must acknowledge an entry until it counts as acknowledged. UINT32_MAX: it never does.
  void set_acks_needed(std::uint32_t acks_needed) noexcept;
  void acknowledge(std::uint64_t seq, std::uint32_t name) noexcept;
  // The entry may not count as acknowledged any more.
  void note_forgotten(std::uint64_t seq) noexcept;
  // The first entry that does not count as acknowledged, and the sums of it and all behind it. Kept up to
  // date.
  [[nodiscard]] std::uint64_t unacked_seq() const noexcept { return unacked_; }
  [[nodiscard]] std::uint64_t unacked_rows() const noexcept { return unacked_rows_; }
  [[nodiscard]] std::uint64_t unacked_bytes() const noexcept { return unacked_bytes_; }
  // The first of them that `name` itself has not acknowledged: where a reader of this name goes on.
  [[nodiscard]] std::uint64_t unacked_seq_of(std::uint32_t name) const noexcept;

  // Removes an entry that is there, and returns its body. `evicted` remembers that it was not acknowledged.
  Body remove(std::uint64_t seq, bool evicted);
  // Calls `visit` with each entry that is there, until it answers false.
  template <typename Visit>
  void for_each(Visit&& visit) {
    count_walk(entries_.size());
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (!entries_[i].gone && !visit(first_ + i, entries_[i])) return;
    }
  }

 private:
  static void count_walk(std::uint64_t entries) noexcept;
  void pass_acknowledged() noexcept;

  std::deque<Entry> entries_;
  std::uint64_t first_ = 0;
  std::uint32_t acks_needed_ = 1;
  std::uint64_t unacked_ = 0;
  std::uint64_t unacked_rows_ = 0, unacked_bytes_ = 0;
};

// How many entries all walks over logs of this process have passed so far. By it tests show which calls cost
// the same however long a log is. Any thread.
std::uint64_t entries_walked() noexcept;

class Log {
 public:
  struct Figures {
    std::uint64_t arrived = 0, rows = 0, bytes = 0;  // since the stream began
    std::uint64_t kept_batches = 0, kept_bytes = 0;  // in the log now
    std::uint64_t unread_batches = 0,
                  awaited_batches = 0;  // of these: consumed by nobody; by too few readers
  };

  explicit Log(News* news) noexcept : news_(news) {}

  // Says what the stream is. Once.
  void declare(std::string schema, std::uint32_t partitions, std::uint32_t retain, std::uint32_t readers);
  [[nodiscard]] bool is_declared() const noexcept { return !partitions_.empty(); }
  [[nodiscard]] const std::string& schema() const noexcept { return schema_; }
  [[nodiscard]] std::uint32_t retain() const noexcept { return retain_; }
  // How many readers each batch is for.
  [[nodiscard]] std::uint32_t readers_needed() const noexcept { return readers_needed_; }
  // Each batch is for one reader less from here on. One is always waited for.
  void need_one_reader_less();

  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(partitions_.size()); }
  [[nodiscard]] PartitionLog& operator[](std::uint32_t partition) noexcept { return partitions_[partition]; }
  [[nodiscard]] const PartitionLog& operator[](std::uint32_t partition) const noexcept {
    return partitions_[partition];
  }
  std::uint64_t append(std::uint32_t partition, Entry entry);
  void note_consumed(Entry& entry, std::uint32_t name);
  // As if `name` had never moved past this entry, which is there. False: it had not.
  bool forget(std::uint32_t partition, std::uint64_t seq, std::uint32_t name);
  // Whether retention asks for the entry no longer.
  [[nodiscard]] bool is_satisfied(const Entry& entry) const noexcept;
  Body remove(std::uint32_t partition, std::uint64_t seq, bool evicted);

  [[nodiscard]] const Figures& figures() const noexcept { return figures_; }

 private:
  void stop_awaiting(const Entry& entry) noexcept;

  News* const news_;
  std::string schema_;
  std::uint32_t retain_ = 0;
  std::uint32_t readers_needed_ = 1;
  std::vector<PartitionLog> partitions_;
  Figures figures_;
};

}  // namespace lwmq::stream
