// The statistics page: what a process tells of itself to tools that look at it from outside.
//
// A sealed segment named lwmq-stats, found through /proc/PID/fd by whoever may (the same user, or root) and
// mapped read-only. Its owner writes counters with relaxed stores and never learns who looks; a looker takes
// no lock and makes nobody do anything. See observer.h for the other side.
//
//    0               8         12           16          20           24     28     32        48        64
//   +---------------+---------+------------+-----------+------------+------+------+---------+---------+
//   | magic         | version | page_bytes | head_bytes| entry_bytes| pid  | uid  | instance| library |
//   +---------------+---------+------------+-----------+------------+------+------+---------+---------+
//   | entries_used  | unlisted| counters of the process ... pad to 512                                |
//   +-----------------------------------------------------------------------------------------------------+
//   | entry 0 (512 bytes) | entry 1 | ...                                                                 |
//   +-----------------------------------------------------------------------------------------------------+
//
// An *entry* tells of one writer, reader, endpoint, channel, listener or send queue of a channel, or of the
// times that a filter has measured. Its lap is odd while it is in use:
//
//   entry-taken   owner makes lap even, writes what does not change, makes it odd (release)
//                 -> a looker loads lap (acquire), copies, (fence) loads it again: the same and odd, or the
//                 copy is of nobody
//
// A process that dies between two stores leaves a page that nobody can open any more: it goes with the
// process's descriptors.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/limits.h"
#include "stats/process_counters.h"

namespace lwmq::stats {

inline constexpr std::uint64_t kPageMagic = 0x5441'5453'514d'574c;  // "LWMQSTAT"
inline constexpr std::uint32_t kPageVersion = 1;
inline constexpr const char* kPageLabel = "lwmq-stats";

enum class EntryKind : std::uint32_t {
  kNone = 0,
  kWriter = 1,
  kReader = 2,
  kEndpoint = 3,
  kChannel = 4,
  kQueue = 5,
  kLatency = 6,
  kListener = 7
};
inline constexpr std::uint64_t kEntryConnected = 1;
inline constexpr std::uint64_t kEntryServer = 2;
inline constexpr std::uint64_t kEntryClosed = 4;  // a reader whose batches are still leased; a writer that
                                                  // has ended and is not read to its end; times of a filter
                                                  // that was removed

inline constexpr std::uint64_t kEntryStalled = 8;  // the endpoint that it waits for lives and does not answer

struct Entry {
  std::atomic<std::uint32_t> lap;
  std::uint32_t kind;
  std::uint64_t opened_ns;  // CLOCK_REALTIME
  char address[160];        // cut where longer; ends with NUL
  // Of a reader, a job; of a channel that a listener gave, the number of its client; of a queue its number on
  // the channel, behind the channel's name and a point where that has one; of times the filter.
  char name[64];
  // Zero where the kind has no such thing. Clocks are CLOCK_MONOTONIC.
  Counter flags;
  Counter waiting_since_ns;  // writer: for room; reader: for a batch; 0: does not wait
  Counter moved_ns;          // when a writer published, or a reader was lent, its last batch
  Counter partitions;
  Counter batches, rows, bytes;          // written or read; endpoint: that have arrived
  Counter window_bytes;                  // writer: its windows
  Counter window_used_bytes;             // writer: blocks in there that are not free
  Counter unread_batches;                // writer: not free yet; endpoint: that nobody has read
  Counter kept_batches, kept_bytes;      // endpoint: in the log
  Counter leased_batches, leased_bytes;  // reader: held by its application
  Counter readers, writers;              // endpoint: attached now; writers are producers
  Counter peer_pid;  // writer: who holds what it waits for; reader: last writer; channel: peer
  Counter messages_sent, messages_received;
  Counter bytes_sent, bytes_received;
  Counter messages_queued, messages_lost;
  // endpoint: readers that keep a writer waiting, and were shut out for it; one of the first
  Counter readers_stalled, readers_expelled, stalled_pid;
  Counter messages_posted;     // channel, queue
  Counter messages_discarded;  // queue: dropped before they were shipped; channel: by its receive queue
  Counter priority;            // queue
  Counter messages_replaced;   // queue: by a later one of the same tag
  Counter receive_queued;      // channel: landed, and nobody has received it yet; listener: clients, likewise
  Counter duplicates_dropped;  // channel: received before over another of redundant transports
  Counter clients_accepted;    // listener
  Counter clients_refused;     // listener, and channel that serves
};
static_assert(sizeof(Entry) == 512);
static_assert(offsetof(Entry, address) == 16 && offsetof(Entry, flags) == 240);
static_assert(offsetof(Entry, messages_lost) == 416 && offsetof(Entry, stalled_pid) == 440);

// What an entry of kind kLatency has in the place of everything behind `flags`. Any thread adds.
struct Latencies {
  Counter sum_ns;
  Counter
      counts[32];  // i: of 64 ns << i at most, and longer than those before; the last: all that are longer
};
static_assert(offsetof(Entry, waiting_since_ns) + sizeof(Latencies) == sizeof(Entry));
inline constexpr std::size_t kLatencySteps = sizeof(Latencies::counts) / sizeof(Counter);

inline const Latencies& latencies_of(const Entry& entry) noexcept {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&entry);
  return *reinterpret_cast<const Latencies*>(bytes + offsetof(Entry, waiting_since_ns));
}

inline void add_latency(Entry& entry, std::uint64_t ns) noexcept {
  auto& latencies = const_cast<Latencies&>(latencies_of(entry));
  const std::size_t step = ns <= 64 ? 0 : static_cast<std::size_t>(std::bit_width(ns - 1)) - 6;
  add(latencies.counts[std::min(step, kLatencySteps - 1)], 1);
  add(latencies.sum_ns, ns);
}

struct PageHead {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t page_bytes;
  std::uint32_t head_bytes;
  std::uint32_t entry_bytes;
  std::uint32_t pid, uid;  // as the process knows itself
  std::uint8_t instance[16];
  char library[16];
  Counter entries_used;  // no entry past these was ever taken: a look past them would make pages
  Counter unlisted;      // writers, readers ... for which there was no entry
  ProcessCounters process;
  std::uint64_t reserved[45];
};
static_assert(sizeof(PageHead) == 512);
static_assert(offsetof(PageHead, entries_used) == 64 && offsetof(PageHead, process) == 80);

inline constexpr std::uint64_t kPageBytes = 32 * kMiB;  // 65,535 entries; memory only where it was used
inline constexpr std::size_t kEntriesMax = (kPageBytes - sizeof(PageHead)) / sizeof(Entry);

// An entry of this process, given back with its last reference. Where the page is full or cannot be made, one
// that nobody sees: who writes into it need not know.
std::shared_ptr<Entry> open_entry(EntryKind kind, const char* address, const char* name = "");

}  // namespace lwmq::stats
