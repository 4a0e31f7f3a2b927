// Flush, close and destroy of a channel.
#include <time.h>

#include <algorithm>

#include "channel/channel.h"
#include "os/clock.h"
#include "os/deadline.h"
#include "os/identity.h"

namespace lwmq::channel {
namespace {

// How long a flush waits for one of redundant transports before it asks the next.
constexpr std::int64_t kWaySliceNs = 10 * os::kMillisecond;
constexpr std::int64_t kLeavingPauseNs = 50'000;

}  // namespace

Status Channel::flush(std::uint32_t timeout_ms) {
  if (!shared_.several) return first_.flush(timeout_ms);
  const Inside inside(*this);
  const std::int64_t deadline = os::deadline_of(timeout_ms);
  if (shared_.redundant) {
    const Status status = first_.check_open(false);
    return status != LWMQ_OK ? status : first_.after_drain(wait_drained(deadline, false));
  }
  return all([&](Conversation& one) { return one.flush(timeout_ms == 0 ? 0 : os::ms_left(deadline)); });
}

// Waits until one of redundant ways has brought everything. A way that was cut since the last time may have
// lost what another still has. If every way was cut, this waits until all ways with a peer are drained. If
// the filters of a way drop messages, the others must have shipped everything, too.
Status Channel::wait_drained(std::int64_t deadline, bool also_read) noexcept {
  for (;;) {
    const std::uint32_t seen = shared_.changes.load(std::memory_order_acquire);  // sync: change
    std::uint32_t ways = 0;
    std::uint32_t drained = 0;
    bool one_has_all = false;
    bool leaky_has_all = false;
    bool queued = false;
    bool queued_for_peer = false;
    const Status status = all([&](Conversation& way) -> Status {
      const bool holds = way.queued() > 0;
      queued = queued || holds;
      if (one_has_all || !way.has_peer()) return LWMQ_OK;
      queued_for_peer = queued_for_peer || holds;
      const std::int64_t slice = std::min(deadline, os::now_ns() + kWaySliceNs);
      const Status one = way.wait_drained(slice, also_read);
      if (one == LWMQ_E_INTERRUPTED) return one;
      if (!way.has_peer()) return LWMQ_OK;  // lost just now
      ++ways;
      if (one != LWMQ_OK) return LWMQ_OK;
      ++drained;
      if (!way.was_cut()) (way.has_dropped() ? leaky_has_all : one_has_all) = true;
      return LWMQ_OK;
    });
    if (status != LWMQ_OK) return status;
    if (one_has_all || (leaky_has_all && !queued_for_peer) || (drained == ways && (ways > 0 || !queued))) {
      each([](Conversation& way) { way.forget_cuts(); });
      return LWMQ_OK;
    }
    if (os::now_ns() >= deadline) return LWMQ_E_TIMED_OUT;
    if (ways > 0) continue;
    const Status waited = os::wait_for_change(seen, deadline, shared_.changes);
    if (waited != LWMQ_OK) return waited;
  }
}

Status Channel::close(std::uint32_t linger_ms) {
  if (!shared_.several || os::forked()) return first_.close(linger_ms);
  const std::int64_t began_ns = os::now_ns();
  // What was never opened is never shipped.
  const std::int64_t deadline = os::deadline_of(first_.was_opened() ? linger_ms : 0);
  // All at once: what is posted while one lingers would reach the peers of the others only.
  each([](Conversation& one) { one.begin_close(); });
  // None is closed before all have lingered: a close that a signal ends may be repeated.
  const Status lingered =
      shared_.redundant ? wait_drained(deadline, true) : all([deadline](Conversation& one) -> Status {
        const Status status = one.wait_drained(deadline, true);
        return status == LWMQ_E_INTERRUPTED ? status : LWMQ_OK;
      });
  if (lingered == LWMQ_E_INTERRUPTED) {
    shared_.lingered_ns += os::now_ns() - began_ns;
    each([](Conversation& one) { one.reopen(); });
    return lingered;
  }
  Failure outcome;
  // The first conversation last: its phase is the channel's.
  for (std::size_t i = 1; i <= count(); ++i) {
    const Status status = at(i % count()).close(0, linger_ms);
    if (status == LWMQ_OK) continue;
    const bool is_first = outcome.status() == LWMQ_OK;
    if (!is_first) fail(outcome.status(), "%s; %s", outcome.text(), last_error());
    outcome.keep(is_first ? status : outcome.status());
  }
  const bool is_whole = shared_.redundant && lingered == LWMQ_OK;
  return is_whole ? LWMQ_OK : outcome.tell();
}

void Channel::destroy(Channel* channel) {
  if (os::forked()) return;  // its threads and its memory are the parent's: the child forgets it
  OnDestroy::tell_all(*channel);
  channel->each([](Conversation& one) { one.begin_close(); });
  for (std::size_t i = 1; i <= channel->count(); ++i) channel->at(i % channel->count()).close(0);
  while (channel->shared_.callers.load() != 0) {  // sync: caller; the closes have woken them
    const timespec pause{0, kLeavingPauseNs};
    nanosleep(&pause, nullptr);
  }
  delete channel;
}

}  // namespace lwmq::channel
