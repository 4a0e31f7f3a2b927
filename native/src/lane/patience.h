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
  // So many extents have landed together. Extents that are no messages are not to be counted.
  void landed(std::uint32_t count) noexcept {
    pace_.landed(count);
    short_runs_ = count <= kShortRun ? short_runs_ + 1 : 0;
  }
  // Before a land of at most `limit` extents whose caller waits next. Where nothing is there, looks for as
  // long as a wait does before it sleeps, and the next wait then sleeps at once. Holds back before that, and
  // also where one short run has followed another: we are as fast as the peer, and chase it. Returns how many
  // extents to land: one after a look, because a look at the next one takes its line from the peer, which may
  // wait for our answer first.
  template <typename HasExtent, typename IsOver>
  std::uint32_t look_for_extent(std::uint32_t limit, bool holds, HasExtent&& has_extent,
                                IsOver&& is_over) noexcept {
    if (holds) {
      if (short_runs_ < kChase && has_extent()) return limit;
      short_runs_ = 0;
      pace_.hold(has_extent);
    }
    has_looked_ = !receiving_.spin_until([&] { return has_extent() || is_over(); });
    return 1;
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
  static constexpr std::uint32_t kChase = 2;  // landing so many runs of so few, one after the other
  static constexpr std::uint32_t kShortRun = 1;

  os::Glances& glances(std::uint32_t what) noexcept {
    return (what & LWMQ_TLI_WAIT_EXTENT) != 0 ? receiving_ : sending_;
  }

  os::Glances receiving_;
  os::Glances sending_;
  Pace pace_;
  std::uint32_t short_runs_ = 0;
  bool has_looked_ = false;  // in vain, since the last wait for extents
};

}  // namespace lwmq::lane
