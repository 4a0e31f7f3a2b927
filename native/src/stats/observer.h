// Looks at the statistics pages of other processes, and of this one.
//
// Finds them through /proc, where the kernel decides whose we may open: a process of another user, or one
// that ends meanwhile, is passed over. A page is somebody else's memory: it is mapped only with its seals (so
// that it cannot shrink under us), and what it says is copied once before it is used.
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
  // Where its page is: the number of a descriptor over there, and the file behind it.
  int fd = -1;
  std::uint64_t inode = 0;
  os::Mapping page;
};

class Observer {
 public:
  // LWMQ_E_SYSTEM: there is no /proc.
  Status look();
  [[nodiscard]] const std::vector<SeenProcess>& processes() const noexcept { return processes_; }

 private:
  std::vector<SeenProcess> processes_;  // by pid
};

// Copies an entry that is in use, as seen at `now_ns`. False: it is not, or changed hands while we copied.
bool copy_entry(const Entry& entry, std::int64_t now_ns, lwmq_entry_view* out_view) noexcept;

}  // namespace lwmq::stats
