// How the threads of a transport over memory wait for its peer: they hold back where that pays (Pace), look
// (Glances), and then sleep.
#pragma once

#include <cstdint>
#include <utility>

#include "lane/pace.h"
#include "lwmq/lwmq_tli.h"
#include "os/spin.h"

namespace lwmq::lane {

class Patience {
 public:
  // For an end with these options, whose peer sends out of so many buffers of so many bytes.
  void init(const lwmq_tli_options& own, std::uint32_t peer_buffers,
            std::uint64_t peer_buffer_bytes) noexcept {
    pace_.init(own.purpose == LWMQ_TLI_FOR_MESSAGES, peer_buffers * peer_buffer_bytes);
    if (own.purpose != LWMQ_TLI_FOR_RAW) return;
    receiving_.expect_buffers(peer_buffer_bytes);
    sending_.expect_buffers(own.buffer_bytes);
  }

  // ---- The landing thread's ----
  void landed(std::uint32_t count) noexcept { pace_.landed(count); }
  template <typename HasExtent>
  void hold(HasExtent&& has_extent) noexcept {
    pace_.hold(has_extent);
  }
  // Looks for as long as a wait does before it sleeps, which the next wait then does not again. False: in
  // vain.
  template <typename Ready>
  bool sees(Ready&& ready) noexcept {
    has_looked_ = !receiving_.spin_until(ready);
    return !has_looked_;
  }

  // ---- A wait for `what`, LWMQ_TLI_WAIT_* ----
  // What comes before its sleep. True: `ready`. A time-out of 0 looks once.
  template <typename Ready, typename HasExtent>
  bool look(std::uint32_t what, std::uint32_t timeout_ms, Ready&& ready, HasExtent&& has_extent) noexcept {
    const bool for_extents = what == LWMQ_TLI_WAIT_EXTENT && timeout_ms != 0;
    const bool has_looked = for_extents && std::exchange(has_looked_, false);
    if (for_extents && !has_looked) pace_.hold(has_extent);
    if (ready()) return true;
    return timeout_ms != 0 && !has_looked && glances(what).spin_until(ready);
  }
  void slept(std::uint32_t what, std::int64_t ns) noexcept { glances(what).slept(ns); }

 private:
  os::Glances& glances(std::uint32_t what) noexcept {
    return (what & LWMQ_TLI_WAIT_EXTENT) != 0 ? receiving_ : sending_;
  }

  os::Glances receiving_;
  os::Glances sending_;
  Pace pace_;
  bool has_looked_ = false;  // in vain, since the last wait for extents
};

}  // namespace lwmq::lane
