// This process and the peers' processes, as far as death is concerned.
//
// Each process has one page in a sealed segment. Our service thread holds the death words in ours; the page
// of a peer is mapped once per process, however many transports and windows refer to it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "os/futex.h"
#include "os/segment.h"
#include "providers/ipc/layout.h"

namespace lwmq::ipc {

// Another process (or ourselves, as a peer sees us).
class PeerProcess {
 public:
  PeerProcess(os::UniqueFd fd, os::Mapping page, std::uint64_t inode) noexcept
      : fd_(std::move(fd)), page_(std::move(page)), inode_(inode) {}

  [[nodiscard]] const ProcessPage& page() const noexcept {
    return *reinterpret_cast<const ProcessPage*>(page_.data());
  }
  [[nodiscard]] const std::atomic<std::uint32_t>& death_word(std::uint32_t index) const noexcept {
    return page().death[index].word;
  }
  [[nodiscard]] bool alive() const noexcept { return os::is_held(death_word(0)); }
  // For sending on with a window of this process.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] std::uint64_t inode() const noexcept { return inode_; }

 private:
  os::UniqueFd fd_;
  os::Mapping page_;
  std::uint64_t inode_;
};

// The process behind the page in `fd`, which a peer sent and which must be that of `instance`. Takes `fd`.
// LWMQ_E_CORRUPT, LWMQ_E_VERSION, LWMQ_E_SYSTEM, LWMQ_E_NO_MEMORY.
Status meet_process(os::UniqueFd fd, const std::uint8_t instance[16],
                    std::shared_ptr<PeerProcess>* out_process);

// Whether our page exists and the service thread holds its words; before that nobody may be shown the page.
// LWMQ_E_TIMED_OUT: not yet, and it is not `deadline` yet. LWMQ_E_CLOSED: forked. LWMQ_E_UNSUPPORTED: this
// process may not make a call that it needs, or has no /proc. LWMQ_E_SYSTEM: the service thread does not run.
Status check_held(std::int64_t deadline) noexcept;
// Waits until it is so. Not LWMQ_E_TIMED_OUT.
Status wait_until_held() noexcept;

// Descriptor of our own page; once the words are held.
[[nodiscard]] int own_page_fd() noexcept;
// A death word of ours for one more transport.
[[nodiscard]] std::uint32_t next_death_word() noexcept;

// ---- The service thread -------------------------------------------------------------------------------

// Holds the death words and watches those of peers until *stop is set and wake_service was called.
void run_service(const volatile std::uint32_t* stop);
void wake_service();

// Asks the service thread to make `event_fd` readable when the holder of `word` is gone, for `owner`. Any
// thread. Only what a poller waits for needs this: a thread that waits on a transport sleeps on the word
// itself.
void watch_death(const void* owner, const std::atomic<std::uint32_t>* word,
                 std::shared_ptr<PeerProcess> process, int event_fd);
// After it returned, the descriptors that were given for `owner` are no longer touched.
void unwatch_death(const void* owner);

}  // namespace lwmq::ipc
