// The filters of one channel: which, in which order, and what each has done. They may change while extents
// pass: every transport of the channel has its own instances (filter_lane.h), and looks at the version first.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "lwmq/lwmq_tli.h"
#include "stats/page.h"

namespace lwmq::filters {

inline constexpr std::size_t kFiltersMax = 32;  // of one channel

// Times in nanoseconds, as HdrHistogram lays them out: 64 steps for each power of two. Any thread adds.
class Times {
 public:
  void add(std::uint64_t ns) noexcept;
  // The upper end of the step within which `share` of all are; 0 where there are none.
  [[nodiscard]] std::uint64_t within(double share) const noexcept;
  [[nodiscard]] std::uint64_t count() const noexcept { return count_.load(std::memory_order_relaxed); }

 private:
  static constexpr unsigned kSteps = 64;
  static constexpr unsigned kPowers = 36;  // up to 2^42 ns, more than an hour
  std::atomic<std::uint64_t> counts_[kSteps * kPowers]{};
  std::atomic<std::uint64_t> count_{0};
};

// One filter as it was asked for. Its counters are written by the lanes of all transports.
struct NamedFilter {
  const lwmq_tli_filter* filter = nullptr;
  std::string settings;
  std::string address;  // of its channel, with all filters
  std::atomic<std::uint64_t> seen{0}, dropped{0}, changed{0}, sourced{0}, held{0}, failed{0};

  // What it has measured: for ourselves, and on the statistics page.
  struct Measured {
    Times times;
    std::shared_ptr<stats::Entry> entry;
  };
  std::atomic<Measured*> measured{nullptr};  // made with the first time; gone with us

  ~NamedFilter() { delete measured.load(std::memory_order_relaxed); }
  void add_time(std::uint64_t ns) noexcept;
  // It was removed; lanes that have not looked since may still measure.
  void retire() const noexcept;
};

class Filters {
 public:
  using List = std::vector<std::shared_ptr<NamedFilter>>;  // the nearest to the application first

  // What stands in front of the scheme: `trace+loss=0.01+`. LWMQ_E_ADDRESS with a text.
  static Status parse(const char* address, std::shared_ptr<Filters>* out_filters);

  // Any thread. LWMQ_E_INVALID with a text.
  Status add(const char* text, std::uint32_t place);
  Status remove(std::uint32_t place);
  Status query(std::uint32_t place, lwmq_filter_view* out_view) const;
  // LWMQ_E_EMPTY: none was measured.
  Status query_times(std::uint32_t place, double share, std::uint64_t* out_ns) const;

  // Extents that those which are there have dropped, both ways.
  [[nodiscard]] std::uint64_t dropped() const noexcept;

  // Changes with the list; never 0.
  [[nodiscard]] std::uint64_t version() const noexcept { return version_.load(std::memory_order_acquire); }
  [[nodiscard]] List list(std::uint64_t* out_version) const;

 private:
  [[nodiscard]] Status no_filter(std::uint32_t place) const noexcept;
  std::string address_;  // as it was parsed
  mutable std::mutex mutex_;
  List list_;
  std::atomic<std::uint64_t> version_{1};  // written under the mutex
};

}  // namespace lwmq::filters
