// The statistics page: figures of a process for tools that look at it from outside.
//
// The page is a sealed segment named lwmq-stats. A tool of the same user, or of root, finds it through
// /proc/PID/fd and maps it read-only. The owner writes counters with relaxed stores and never learns who
// reads them. A reader takes no lock and costs the owner nothing. observer.h is the reader's side.
//
//    0               8         12           16           20            24    28     32         48        64
//   +---------------+---------+------------+------------+-------------+-----+------+----------+---------+
//   | magic         | version | page_bytes | head_bytes | entry_bytes | pid | uid  | instance | library |
//   +---------------+---------+------------+------------+-------------+-----+------+----------+---------+
//   | entries_used  | unlisted| counters of the process (LWMQ_PROCESS_COUNTERS), pad to head_bytes       |
//   +---------------------------------------------------------------------------------------------------+
//   | entry 0: what does not change, state, counters (LWMQ_ENTRY_COUNTERS), pad to entry_bytes | entry 1 |
//   +---------------------------------------------------------------------------------------------------+
//
// lwmq.h lists the counters. A new one goes to the end of its table; head and entries grow as they must, in
// whole cache lines. A reader goes by the two sizes in the head: from a library with fewer counters than its
// own it takes those that are there, and from one with more it leaves the rest. The version changes only if
// what lies before the counters does.
//
// An *entry* describes one writer, reader, endpoint, channel, listener or send queue of a channel, or the
// times that a filter has measured. Its lap is odd while it is in use:
//
//   entry-taken   The owner makes the lap even, writes what does not change, and makes the lap odd (release).
//                 A reader loads the lap (acquire), copies the entry, and loads the lap again behind a fence.
//                 Unless both are the same odd number, the copy belongs to no entry.
//
// A process that dies between two stores leaves a page that nobody can open any more: the page goes with the
// process's descriptors.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/cache_line.h"
#include "base/limits.h"
#include "stats/process_counters.h"

namespace lwmq::stats {

inline constexpr std::uint64_t kPageMagic = 0x5441'5453'514d'574c;  // "LWMQSTAT"
inline constexpr std::uint32_t kPageVersion = 2;
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
// A closed reader whose batches are still leased; a closing writer that waits until everything is read; the
// times of a filter that was removed.
inline constexpr std::uint64_t kEntryClosed = 4;
// A reader or writer whose endpoint lives but does not answer.
inline constexpr std::uint64_t kEntryStalled = 8;

struct alignas(kCacheLine) Entry {
  std::atomic<std::uint32_t> lap;
  std::uint32_t kind;
  std::uint64_t opened_ns;  // CLOCK_REALTIME
  char address[160];        // cut where longer; ends with NUL
  // Reader, job: its name. Channel of a listener: the number of its client. Queue: its number on the channel,
  // after the channel's name and a point if the channel has one. Times: the filter.
  char name[64];
  Counter flags;
  // CLOCK_MONOTONIC; 0: never, or not now.
  Counter waiting_since_ns;                // a writer for room, a reader for a batch
  Counter moved_ns;                        // when a writer published, or a reader was lent, its last batch
  LWMQ_ENTRY_COUNTERS(LWMQ_STATS_COUNTER)  // zero where the kind does not have the counter
};
inline constexpr std::size_t kEntryCountersAt = offsetof(Entry, moved_ns) + sizeof(Counter);
static_assert(offsetof(Entry, address) == 16 && offsetof(Entry, flags) == 240 && kEntryCountersAt == 264);

// In an entry of kind kLatency this lies in the place of the counters. Any thread adds.
struct Latencies {
  Counter sum_ns;
  // counts[i]: times of at most 64 ns << i that are longer than those counted before; the last element counts
  // all longer ones.
  Counter counts[32];
};
inline constexpr std::size_t kEntryBytesMin = kEntryCountersAt + sizeof(Latencies);  // of any version
static_assert(kEntryBytesMin <= sizeof(Entry));
inline constexpr std::size_t kLatencySteps = sizeof(Latencies::counts) / sizeof(Counter);

inline const Latencies& latencies_of(const Entry& entry) noexcept {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&entry);
  return *reinterpret_cast<const Latencies*>(bytes + kEntryCountersAt);
}

inline void add_latency(Entry& entry, std::uint64_t ns) noexcept {
  auto& latencies = const_cast<Latencies&>(latencies_of(entry));
  const std::size_t step = ns <= 64 ? 0 : static_cast<std::size_t>(std::bit_width(ns - 1)) - 6;
  add(latencies.counts[std::min(step, kLatencySteps - 1)], 1);
  add(latencies.sum_ns, ns);
}

struct alignas(kCacheLine) PageHead {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t page_bytes;
  std::uint32_t head_bytes;
  std::uint32_t entry_bytes;
  std::uint32_t pid, uid;  // as the process knows itself
  std::uint8_t instance[16];
  char library[16];
  Counter entries_used;  // entries past these were never taken; looking at them would allocate memory
  Counter unlisted;      // writers, readers ... for which there was no entry
  ProcessCounters process;
};
inline constexpr std::size_t kHeadBytesMin = offsetof(PageHead, process);  // of any version
static_assert(offsetof(PageHead, entries_used) == 64 && kHeadBytesMin == 80);

inline constexpr std::uint64_t kPageBytes = 40 * kMiB;  // some 70,000 entries; memory only where it was used
inline constexpr std::size_t kEntriesMax = (kPageBytes - sizeof(PageHead)) / sizeof(Entry);

// Opens an entry of this process, which is given back with its last reference. If the page is full or could
// not be made, the entry is one that no tool sees; the caller need not know.
std::shared_ptr<Entry> open_entry(EntryKind kind, const char* address, const char* name = "");

}  // namespace lwmq::stats
