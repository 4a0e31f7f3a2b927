// Looks at the statistics pages of other processes, and of this one.
//
// Pages are found through /proc, where the kernel decides which ones this process may open. A process of
// another user, and one that ends meanwhile, is passed over. A page is another process's memory: it is mapped
// only if it is sealed, so that it cannot shrink, and what it says is copied once before it is used.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "lwmq/lwmq.h"
#include "os/segment.h"
#include "stats/page.h"

namespace lwmq::stats {

struct SeenProcess {
  lwmq_process_view view{};
  std::vector<lwmq_entry_view> entries;
  // Where the page is: the number of a descriptor in the other process, and the file behind it.
  int fd = -1;
  std::uint64_t inode = 0;
  os::Mapping page;
  std::uint32_t head_bytes = 0, entry_bytes = 0;  // if the page is known
};

class Observer {
 public:
  // LWMQ_E_SYSTEM: there is no /proc.
  Status look();
  [[nodiscard]] const std::vector<SeenProcess>& processes() const noexcept { return processes_; }

 private:
  std::vector<SeenProcess> processes_;  // by pid
};

// Copies an entry that is in use, as seen at `now_ns`. `entry_bytes` is its size in the version of its
// process. False: the entry is not in use, or it changed hands during the copy.
bool copy_entry(const Entry& entry, std::uint32_t entry_bytes, std::int64_t now_ns,
                lwmq_entry_view* out_view) noexcept;

// The index-th line of the tables of counters; false past the last.
bool counter_at(std::uint32_t index, lwmq_counter* out_counter) noexcept;

}  // namespace lwmq::stats
