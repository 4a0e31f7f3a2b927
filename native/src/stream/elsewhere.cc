#include "stream/elsewhere.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <vector>

#include "os/clock.h"
#include "os/identity.h"
#include "stats/observer.h"

namespace lwmq::stream {
namespace {

constexpr std::int64_t kRestNs = 5'000'000'000;  // between two looks, at least
constexpr std::int64_t kRestPerLook = 1000;      // a process that retries uses less than 0.1 % of a core

// An endpoint of this host in another network namespace.
struct Served {
  std::string address;
  std::uint32_t pid;
  std::uint64_t netns;
};

// Never destroyed: threads may outlive main.
struct LastLook {
  std::mutex mutex;
  std::int64_t next_ns = 0;  // no look before
  std::vector<Served> elsewhere;
};

// The network namespace of a process; 0 where we may not know.
std::uint64_t namespace_of(std::uint32_t pid) noexcept {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%u/ns/net", pid);
  struct stat status {};
  return stat(path, &status) == 0 ? status.st_ino : 0;
}

std::vector<Served> look() {
  std::vector<Served> found;
  stats::Observer observer;
  if (observer.look() != LWMQ_OK) return found;
  for (const stats::SeenProcess& process : observer.processes()) {
    for (const lwmq_entry_view& entry : process.entries) {
      if (entry.kind != LWMQ_ENTRY_ENDPOINT) continue;
      const std::uint64_t netns = namespace_of(process.view.pid);
      if (netns == 0 || netns == os::identity().netns) break;
      found.push_back({entry.address, process.view.pid, netns});
    }
  }
  return found;
}

}  // namespace

std::string served_elsewhere(const std::string& address) {
  static auto* last = new LastLook;
  const std::lock_guard lock(last->mutex);
  const std::int64_t now = os::now_ns();
  if (now >= last->next_ns) {
    last->elsewhere = look();
    const std::int64_t then = os::now_ns();
    last->next_ns = then + std::max(kRestNs, kRestPerLook * (then - now));
  }
  // Whichever stream there: all have one endpoint.
  const std::string door =
      address.substr(0, std::min(address.find('?'), sizeof(lwmq_entry_view::address) - 1));
  for (const Served& served : last->elsewhere) {
    if (served.address.substr(0, served.address.find('?')) != door) continue;
    return "; process " + std::to_string(served.pid) + " of this host serves it in network namespace " +
           std::to_string(served.netns) + ", but this process is in " + std::to_string(os::identity().netns) +
           ": share the namespace, or use an address that is a path, in a folder that both see";
  }
  return {};
}

}  // namespace lwmq::stream
