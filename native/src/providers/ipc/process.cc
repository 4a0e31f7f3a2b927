#include "providers/ipc/process.h"

#include <sys/stat.h>

#include <cstring>
#include <mutex>
#include <new>
#include <vector>

#include "base/failure.h"
#include "base/yield_point.h"
#include "lane/record_lane.h"
#include "os/clock.h"
#include "os/event_fd.h"
#include "os/identity.h"
#include "os/membarrier.h"

namespace lwmq::ipc {
namespace {

constexpr std::int64_t kPageRetryNs = 200'000'000;

struct Watch {
  const void* owner;
  const std::atomic<std::uint32_t>* word;
  std::shared_ptr<PeerProcess> process;  // keeps the word mapped
  int event_fd;
  bool told;
};

// kRefused: what it needs is not allowed here, or not there.
enum Held : std::uint32_t { kNotYet, kHeld, kRefused };

// Never destroyed: threads may outlive main.
struct World {
  std::mutex mutex;
  os::Segment page;                               // made once, under the mutex
  std::vector<std::weak_ptr<PeerProcess>> peers;  // under the mutex
  std::atomic<std::uint32_t> held{kNotYet};       // whether the service thread holds the words; by it alone
  Failure refusal;                                // why it does not; under the mutex
  std::atomic<std::uint32_t> next_word{0};

  std::mutex watch_mutex;
  std::vector<Watch> watches;          // under watch_mutex
  std::atomic<std::uint32_t> news{0};  // the service thread sleeps on it: watches changed, or stop
};

World& world() noexcept {
  static auto* instance = new World;
  return *instance;
}

ProcessPage& own_page() noexcept { return *reinterpret_cast<ProcessPage*>(world().page.memory.data()); }

Status ensure_page() noexcept {
  const std::lock_guard lock(world().mutex);
  if (world().page.fd) return LWMQ_OK;
  os::Segment segment;
  if (const Status status = os::create_segment("lwmq-process", kProcessPageBytes, &segment);
      status != LWMQ_OK) {
    return status;
  }
  auto* page = new (segment.memory.data()) ProcessPage{};
  page->magic = kMagic;
  page->version = kProtocolVersion;
  page->flags = os::membarrier_available() ? kPageHasMembarrier : 0;
  page->pid = os::identity().pid;
  std::memcpy(page->instance, os::identity().instance, sizeof page->instance);
  world().page = std::move(segment);
  return LWMQ_OK;
}

Status check_page(const ProcessPage& page, const std::uint8_t instance[16]) noexcept {
  if (page.magic != kMagic) return fail(LWMQ_E_CORRUPT, "a process page begins with %#x", page.magic);
  if (page.version != kProtocolVersion) {
    return fail(LWMQ_E_VERSION, "a process page has version %u, ours is %u", page.version, kProtocolVersion);
  }
  if (std::memcmp(page.instance, instance, sizeof page.instance) != 0) {
    return fail(LWMQ_E_CORRUPT, "a process page is that of another process than announced");
  }
  return LWMQ_OK;
}

Status say_why_not() {
  const std::lock_guard lock(world().mutex);
  const Failure& refusal = world().refusal;
  if (refusal.status() == LWMQ_E_UNSUPPORTED) return refusal.tell();
  return fail(LWMQ_E_SYSTEM, "the service thread of ipc has not begun within %" PRId64 " ms%s%s",
              kServiceStartNs / 1'000'000, refusal.status() == LWMQ_OK ? "" : ": ", refusal.text());
}

void set_held(Held held) noexcept {
  world().held.store(held, std::memory_order_release);  // sync: words-held
  os::futex_wake_all(world().held);
}

// What the service thread needs before anybody can be shown that we live.
Status hold_words() noexcept {
  Status status = os::check_proc();
  if (status == LWMQ_OK) status = ensure_page();
  if (status == LWMQ_OK) status = os::hold_robust_words(own_page().death, kDeathWords);
  const std::lock_guard lock(world().mutex);
  world().refusal.keep(status);
  return status;
}

}  // namespace

Status meet_process(os::UniqueFd fd, const std::uint8_t instance[16],
                    std::shared_ptr<PeerProcess>* out_process) {
  if (const Status status = os::check_foreign_segment(fd.get(), kProcessPageBytes); status != LWMQ_OK)
    return status;
  struct stat status_of {};
  fstat(fd.get(), &status_of);
  const std::lock_guard lock(world().mutex);
  // By the file, not by the instance: a peer could claim to be another one.
  for (auto it = world().peers.begin(); it != world().peers.end();) {
    std::shared_ptr<PeerProcess> known = it->lock();
    if (known == nullptr) {
      it = world().peers.erase(it);
      continue;
    }
    if (known->inode() == status_of.st_ino) {
      if (const Status status = check_page(known->page(), instance); status != LWMQ_OK) return status;
      *out_process = std::move(known);
      return LWMQ_OK;
    }
    ++it;
  }
  os::Mapping page;
  if (const Status status = os::map_foreign_segment(fd.get(), kProcessPageBytes, os::Populate::kYes, &page);
      status != LWMQ_OK) {
    return status;
  }
  if (const Status status = check_page(*reinterpret_cast<const ProcessPage*>(page.data()), instance);
      status != LWMQ_OK) {
    return status;
  }
  auto process = std::make_shared<PeerProcess>(std::move(fd), std::move(page), status_of.st_ino);
  world().peers.push_back(process);
  *out_process = std::move(process);
  return LWMQ_OK;
}

Status check_held(std::int64_t deadline) noexcept {
  if (os::forked())
    return fail(LWMQ_E_CLOSED, "forked: the transports and windows of this process are its parent's");
  const std::uint32_t now = world().held.load(std::memory_order_acquire);  // sync: words-held
  if (now == kHeld) [[likely]]
    return LWMQ_OK;
  return now == kRefused || os::now_ns() >= deadline ? say_why_not() : LWMQ_E_TIMED_OUT;
}

Status wait_until_held() noexcept {
  const std::int64_t deadline = os::now_ns() + kServiceStartNs;
  for (;;) {
    const Status status = check_held(deadline);
    if (status != LWMQ_E_TIMED_OUT) return status;
    os::futex_wait(world().held, kNotYet, deadline - os::now_ns());
  }
}

int own_page_fd() noexcept { return world().page.fd.get(); }

std::uint32_t next_death_word() noexcept {
  return 1 + world().next_word.fetch_add(1, std::memory_order_relaxed) % (kDeathWords - 1);
}

// ---- The service thread ------------------------------------------------------------------------------

namespace {

// Rings for those that have died and were not told yet; collects the words of the others.
// Past kFutexWordsMax - 1 the hang-up of the life line, which is behind the listener's descriptor too, must
// do.
std::size_t look_at_watches(os::FutexWord* words, std::vector<std::shared_ptr<PeerProcess>>* keep) {
  std::size_t count = 1;
  keep->clear();
  const std::lock_guard lock(world().watch_mutex);
  for (Watch& watch : world().watches) {
    if (watch.told) continue;
    const std::uint32_t value = watch.word->load(std::memory_order_acquire);
    if (!os::is_held(*watch.word)) {
      os::futex_wake_all(*watch.word);  // the kernel has woken one sleeper of ours; there may be more
      os::ring_event_fd(watch.event_fd);
      watch.told = true;
    } else if (count < os::kFutexWordsMax) {
      words[count++] = {watch.word, value};
      keep->push_back(watch.process);
    }
  }
  return count;
}

}  // namespace

void run_service(const volatile std::uint32_t* stop) {
  // Descriptors or memory may be short for a moment, and nobody calls us again.
  for (;;) {
    const Status status = hold_words();
    if (status == LWMQ_OK) break;
    if (status == LWMQ_E_UNSUPPORTED) set_held(kRefused);
    const std::uint32_t news = world().news.load(std::memory_order_acquire);
    if (*stop != 0) return;
    os::futex_wait(world().news, news, kPageRetryNs, os::Sleepers::kOfThisProcess);
  }
  LWMQ_YIELD("words.held");
  set_held(kHeld);
  std::vector<std::shared_ptr<PeerProcess>> keep;
  os::FutexWord words[os::kFutexWordsMax];
  for (;;) {
    words[0] = {&world().news, world().news.load(std::memory_order_acquire)};  // before we look
    if (*stop != 0) break;
    const std::size_t count = look_at_watches(words, &keep);
    os::futex_wait_any(words, count, -1);
  }
  set_held(kNotYet);
  os::drop_robust_words();
}

void wake_service() {
  world().news.fetch_add(1, std::memory_order_release);
  os::futex_wake_all(world().news);
}

void watch_death(const void* owner, const std::atomic<std::uint32_t>* word,
                 std::shared_ptr<PeerProcess> process, int event_fd) {
  {
    const std::lock_guard lock(world().watch_mutex);
    world().watches.push_back({owner, word, std::move(process), event_fd, false});
  }
  wake_service();
}

void unwatch_death(const void* owner) {
  const std::lock_guard lock(world().watch_mutex);
  std::erase_if(world().watches, [owner](const Watch& watch) { return watch.owner == owner; });
}

}  // namespace lwmq::ipc
