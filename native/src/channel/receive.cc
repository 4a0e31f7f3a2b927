// Receiving from a channel with several transports.
#include <algorithm>
#include <mutex>

#include "channel/channel.h"
#include "os/deadline.h"
#include "service/service_thread.h"

namespace lwmq::channel {
namespace {

// Whether a receive from one conversation has nothing to tell: it is empty, or closed like all of them.
bool has_none(const Conversation& conversation, Status status) noexcept {
  return status == LWMQ_E_EMPTY || (status != LWMQ_OK && conversation.phase() != Channel::Phase::kOpen);
}

// What is left of a time that several calls share.
std::uint32_t rest_of(std::uint32_t timeout_ms, std::int64_t deadline) noexcept {
  return timeout_ms == 0 ? 0 : os::ms_left(deadline);
}

}  // namespace

Status Channel::receive_from_several(std::uint32_t timeout_ms, std::uint32_t limit, Message** out_messages,
                                     std::uint32_t* out_count) {
  if (shared_.redundant) return receive_merged(timeout_ms, limit, out_messages, out_count);
  return first_.receive_queue() != nullptr ? take(timeout_ms, limit, out_messages, out_count)
                                           : receive_in_turns(timeout_ms, limit, out_messages, out_count);
}

// The drain comes before every look: what rings after it is for the next one. False: something is there.
bool Channel::arm_all() noexcept {
  first_.known_descriptor()->drain();
  bool armed = true;
  each([&armed](Conversation& one) { armed = one.arm() && armed; });
  if (!armed) first_.ring();  // the drain has taken the readiness from other threads that poll
  return armed && first_.phase() == Phase::kOpen;
}

Status Channel::receive_in_turns(std::uint32_t timeout_ms, std::uint32_t limit, Message** out_messages,
                                 std::uint32_t* out_count) {
  const Inside inside(*this);
  std::int64_t deadline = 0;
  for (;;) {
    Status status = first_.check_open(false);
    if (status != LWMQ_OK) return status;
    const std::size_t turn = turn_.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < count(); ++i) {
      const std::size_t place = (turn + i) % count();
      status = at(place).receive(0, limit, out_messages, out_count);
      if (has_none(at(place), status)) continue;
      turn_.store(place + 1, std::memory_order_relaxed);
      return status;
    }
    if (timeout_ms != 0 && deadline == 0) deadline = os::deadline_of(timeout_ms);
    if (!arm_all()) continue;
    const std::uint32_t left = rest_of(timeout_ms, deadline);
    if (left == 0) return timeout_ms == 0 ? LWMQ_E_EMPTY : LWMQ_E_TIMED_OUT;
    status = first_.known_descriptor()->wait(std::min(left, os::kWaitSliceMs));
    if (status != LWMQ_OK) return status;
  }
}

// Takes what comes next over a way that holds nothing. *out_unnumbered: a message of a peer whose ways are
// not redundant.
Channel::Pulled Channel::pull(std::size_t place, std::int64_t now_ns, Message** out_unnumbered,
                              bool* out_short) {
  if (way_ends_[place].status() != LWMQ_OK) return Pulled::kNoMore;  // until that was told
  Conversation& way = at(place);
  // Looked at before the receive: if the way has lost its peer by now, everything that the peer sent is
  // there.
  const bool may_bring = way.has_peer();
  Message* message = nullptr;
  std::uint32_t count = 0;
  const Status status = way.receive(0, 1, &message, &count);
  if (status == LWMQ_E_NO_MEMORY) {
    *out_short = true;  // the message waits
    return Pulled::kNothingYet;
  }
  if (has_none(way, status)) return may_bring ? Pulled::kNothingYet : Pulled::kNoMore;
  if (status != LWMQ_OK) {
    way_ends_[place].keep(status);
  } else if (message->is_numbered()) {
    shared_.merge->put(place, message, now_ns);
  } else {
    *out_unnumbered = message;
  }
  return Pulled::kSomething;
}

// From redundant transports, in the order of the numbers.
Status Channel::receive_merged(std::uint32_t timeout_ms, std::uint32_t limit, Message** out_messages,
                               std::uint32_t* out_count) {
  reliability::Merge& merge = *shared_.merge;
  const Inside inside(*this);
  std::int64_t deadline = 0;
  for (;;) {
    Status status = first_.check_open(false);
    if (status != LWMQ_OK) return status;
    std::unique_lock lock(merge.receiving);
    const std::int64_t now_ns = os::now_ns();
    std::uint32_t received = 0;
    bool is_short = false;  // of memory
    bool moved = true;
    while (moved && received < limit) {
      moved = false;
      std::uint64_t sources = 0;  // ways that may bring more
      for (std::size_t place = 0; place < count(); ++place) {
        Message* unnumbered = nullptr;
        const bool looks = !merge.holds(place) && received < limit;
        const Pulled pulled = looks ? pull(place, now_ns, &unnumbered, &is_short) : Pulled::kNothingYet;
        if (pulled == Pulled::kSomething) moved = true;
        if (pulled != Pulled::kNoMore) sources |= std::uint64_t{1} << place;
        if (unnumbered != nullptr) out_messages[received++] = unnumbered;
      }
      while (received < limit) {
        Message* message = merge.take(sources, now_ns);
        if (message == nullptr) break;
        out_messages[received++] = message;
        moved = true;
      }
    }
    if (received > 0) {
      *out_count = received;
      return LWMQ_OK;
    }
    if (is_short || merge.is_short()) return conversation::fail_short_of_memory();
    const std::int64_t until = merge.holds_until();
    for (std::size_t place = 0; place < count() && until == INT64_MAX; ++place) {
      Failure& end = way_ends_[place];
      if (end.status() == LWMQ_OK) continue;
      status = end.tell();
      end.forget();
      return status;
    }
    lock.unlock();
    if (timeout_ms != 0 && deadline == 0) deadline = os::deadline_of(timeout_ms);
    if (!arm_all()) continue;
    const std::uint32_t left = rest_of(timeout_ms, deadline);
    if (until != INT64_MAX) {  // the service thread rings then, for threads that poll
      shared_.merge_until_ns.store(until, std::memory_order_relaxed);
      first_.request_attention();
    }
    if (left == 0) return timeout_ms == 0 ? LWMQ_E_EMPTY : LWMQ_E_TIMED_OUT;
    status = first_.known_descriptor()->wait(std::min({left, os::kWaitSliceMs, os::ms_left(until)}));
    if (status != LWMQ_OK) return status;
  }
}

// From the common receive queue. The service thread lands for all threads that wait. A thread that finds no
// message there first looks at every transport itself.
Status Channel::take(std::uint32_t timeout_ms, std::uint32_t limit, Message** out_messages,
                     std::uint32_t* out_count) {
  const std::int64_t deadline = timeout_ms == 0 ? 0 : os::deadline_of(timeout_ms);
  const Inside inside(*this);
  conversation::ReceiveQueue& queue = *first_.receive_queue();
  shared_.followers.fetch_add(1);  // sync: follower
  Status status = LWMQ_OK;
  for (;;) {
    status = first_.check_open(false);
    if (status != LWMQ_OK) break;
    const std::uint32_t seen = shared_.changes.load(std::memory_order_acquire);  // sync: change
    if (queue.is_bounded() || queue.empty()) {
      if (timeout_ms == 0) first_.known_descriptor()->drain();
      each([](Conversation& one) {
        one.land_now();
        one.report_connect_failure();
      });
    }
    status = queue.take(limit, out_messages, out_count);
    if (status != LWMQ_E_EMPTY) break;
    if (timeout_ms == 0) break;
    status = os::wait_for_change(seen, deadline, shared_.changes);
    if (status != LWMQ_OK) break;
  }
  shared_.followers.fetch_sub(1, std::memory_order_relaxed);
  if (!queue.empty()) first_.ring();
  return status;
}

}  // namespace lwmq::channel
