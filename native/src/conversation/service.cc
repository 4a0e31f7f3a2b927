// What the service threads do for a channel: connect, accept, attach, ship what waited, tidy up, retire
// a lost peer.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "conversation/conversation.h"
#include "filters/filtered.h"
#include "os/clock.h"
#include "os/deadline.h"
#include "os/identity.h"
#include "os/membarrier.h"
#include "stats/process_counters.h"
#include "tli/registry.h"

namespace lwmq::conversation {

namespace {

// Of an attempt to connect. Over a network, what is lost of it is sent again after 1, 3 and 7 s, and a name
// server that does not answer is passed over after 5. A server that is stopped, or busy with another peer,
// finds the same attempt later.
constexpr std::int64_t kAttemptNs = 10'000 * os::kMillisecond;
// Between two looks at an attempt without a descriptor: a share of the time that it has taken.
constexpr std::int64_t kLookShare = 8;
constexpr std::int64_t kLookMaxNs = 100 * os::kMillisecond;
constexpr std::uint32_t kSettleMs = 200;
// An activity that is over is noticed after one tick; a receiver that may have missed the end of a buffer
// looks again after 5, 10, 20 ... ms, so that a peer whose thread was not running in between is still seen
// to have shipped.
constexpr std::int64_t kTick = 5 * os::kMillisecond;
constexpr std::uint32_t kQuietLooks = 6;
constexpr std::int64_t kRoomWaitMinNs = 50'000;  // a window of 2 MiB in that time is more than memory moves
constexpr std::int64_t kRoomWaitMaxNs = 32 * os::kMillisecond;
constexpr std::uint64_t kShipBytes = std::uint64_t{1} << 20;  // between two looks at other channels
constexpr std::uint32_t kAcceptAttempts = 16;
// By a transport that says that it is connected, a millisecond apart.
constexpr std::uint32_t kRefusalsMax = 100;

// Failures that the next attempt will meet again, unless somebody does something about it.
bool is_lasting(Status status) noexcept {
  switch (status) {
    case LWMQ_E_INVALID:
    case LWMQ_E_ADDRESS:
    case LWMQ_E_TOO_BIG:
    case LWMQ_E_VERSION:
    case LWMQ_E_NO_MEMORY:
    case LWMQ_E_DENIED:
    case LWMQ_E_UNSUPPORTED:
    case LWMQ_E_SYSTEM:
      return true;
    default:
      return false;
  }
}

}  // namespace

// What `lwmq top` shows; the service thread looks while the channel is in use and once after.
void Conversation::note_figures() noexcept {
  stats::Entry& entry = *entry_;
  lwmq_tli_peer peer{};
  lwmq_tli_transport* transport = attached_.load(std::memory_order_acquire);  // ours to take away
  if (transport != nullptr) tli_->peer(transport, &peer);
  stats::set(entry.peer_pid, peer.pid);
  stats::set(entry.flags, (transport != nullptr ? stats::kEntryConnected : 0) |
                              (is_server_.load(std::memory_order_relaxed) ? stats::kEntryServer : 0));
  stats::set(entry.messages_sent, sender_.messages());
  stats::set(entry.messages_received, receiver_.messages());
  stats::set(entry.bytes_sent, sender_.bytes());
  stats::set(entry.bytes_received, receiver_.bytes());
  stats::set(entry.messages_queued, settings_.raw ? 0 : scheduler_.message_count());
  stats::set(entry.messages_lost, messages_lost_.load(std::memory_order_relaxed));
  stats::set(entry.messages_posted, settings_.raw ? sender_.messages() : scheduler_.posted());
  if (queue_ != nullptr && place_ == 0) {  // of several transports the first's
    stats::set(entry.receive_queued, queue_->size());
    stats::set(entry.messages_discarded, queue_->discarded());
  }
  stats::set(entry.clients_refused, clients_refused_.load(std::memory_order_relaxed));
  if (is_redundant() && place_ == 0) stats::set(entry.duplicates_dropped, shared_.merge->duplicates());
  if (!settings_.raw) note_queues();
}

// ---- Failures that other threads report -------------------------------------------------------------

void Conversation::set_connect_failure(Status status) noexcept {
  {
    const std::lock_guard lock(failure_mutex_);
    const Status lasting = is_lasting(status) ? status : LWMQ_OK;
    const bool same = failure_.status() == lasting;
    failure_.keep(lasting);
    failure_told_ = failure_told_ && same;
    if (same) return;
  }
  shared_.announce();
}

// The last one, until an attempt succeeds; of several transports once, because the others go on.
Status Conversation::connect_failure() {
  const std::lock_guard lock(failure_mutex_);
  if (!shared_.is_alone && std::exchange(failure_told_, true)) return LWMQ_OK;
  return failure_.tell();
}

// Into the receive queue.
void Conversation::report_connect_failure() {
  if (attached_.load(std::memory_order_acquire) != nullptr) return;
  std::unique_ptr<Report> report = Report::make();
  if (report == nullptr) return;  // the next look tells
  if (const Status status = connect_failure(); status != LWMQ_OK) {
    report->set(status, last_error());
    queue_->report(std::move(report));
  }
}

// With the landing side in hand.
void Conversation::set_broken() noexcept {
  receiver_.break_off();
  const std::lock_guard lock(failure_mutex_);
  if (broken_.status() == LWMQ_OK) broken_.keep(LWMQ_E_CORRUPT);  // the first one counts
}

// With the landing side in hand: nothing that the sender of `landed`, which was no message, says can be
// believed any more. Its conversation ends; the report comes in order. False: it has ended already.
bool Conversation::note_corrupt(const Landed& landed) noexcept {
  if (landed.transport != nullptr && landed.transport != receiver_.transport()) return false;
  set_broken();
  return true;
}

// ---- Meeting ----------------------------------------------------------------------------------------

Status Conversation::listen() noexcept {
  lwmq_tli_listener* listener = nullptr;
  lwmq_tli_options options = settings_.transport;
  options.ring = [](void* self) { static_cast<Conversation*>(self)->ask_service(); };
  options.ring_context = this;
  Status status =
      filters::listen(*provider_, settings_.address.c_str(), options, settings_.filters, &listener);
  if (status != LWMQ_OK) return status;
  const int fd = provider_->listener->descriptor(listener);
  if (fd >= 0) status = service::ServiceThread::attending().watch(&attend_, fd);
  if (status != LWMQ_OK) {
    provider_->listener->close(listener);
    return status;
  }
  is_server_.store(true, std::memory_order_relaxed);
  listener_.store(listener, std::memory_order_release);
  return LWMQ_OK;
}

// Begins an attempt where none is under way, and takes it as far as it goes. Returns when to call again. On
// the connecting thread; once on the application's, in open.
std::int64_t Conversation::connect(std::int64_t now_ns) noexcept {
  if (role_ == LWMQ_ROLE_SERVER) return service::kNever;
  // One at a time: who looked before the other has bound the address would connect us to ourselves.
  const std::lock_guard lock(connect_mutex_);
  if (attached_.load(std::memory_order_acquire) != nullptr ||
      listener_.load(std::memory_order_acquire) != nullptr)
    return service::kNever;
  const std::int64_t again = now_ns + settings_.retry_ms * os::kMillisecond;
  lwmq_tli_transport* transport = nullptr;
  Status status = LWMQ_OK;
  if (attempt_ == nullptr) {
    attempt_began_ns_ = now_ns;
    status = filters::begin(*provider_, settings_.address.c_str(), settings_.transport, settings_.filters,
                            &attempt_);
  }
  if (status == LWMQ_OK) {
    unwatch_attempt();  // whose descriptor may go, or live on in the transport
    status = tli::advance(*provider_, settings_.address.c_str(), attempt_, &transport);
    if (status == LWMQ_E_TIMED_OUT && now_ns - attempt_began_ns_ < kAttemptNs) return watch_attempt(now_ns);
    if (status == LWMQ_E_TIMED_OUT) provider_->attempt->cancel(attempt_);
    attempt_ = nullptr;
  }
  if (status == LWMQ_OK) {
    if (!attach(transport)) return again;
    // Who was active when the last peer went is not rung again.
    ask_service();
    return service::kNever;
  }
  if (status == LWMQ_E_EMPTY && role_ == LWMQ_ROLE_AUTO) {
    status = listen();
    if (status == LWMQ_OK) {
      set_connect_failure(LWMQ_OK);
      shared_.changed();  // for settle_role
      ask_service();
      return service::kNever;
    }
    if (status == LWMQ_E_ADDRESS) return now_ns + os::kMillisecond;  // somebody was quicker: connect to him
  }
  set_connect_failure(status);
  return again;
}

// With connect_mutex_, as unwatch_attempt. Returns when to look at the attempt again, if nothing calls.
std::int64_t Conversation::watch_attempt(std::int64_t now_ns) noexcept {
  const std::int64_t until = attempt_began_ns_ + kAttemptNs;
  const int fd = provider_->attempt->descriptor(attempt_);
  if (fd >= 0 && service::ServiceThread::connecting().watch(&connect_, fd) == LWMQ_OK) return until;
  const std::int64_t share = (now_ns - attempt_began_ns_) / kLookShare;
  return std::min(until, now_ns + std::clamp(share, os::kMillisecond, kLookMaxNs));
}

void Conversation::unwatch_attempt() noexcept {
  const int fd = provider_->attempt->descriptor(attempt_);
  if (fd >= 0) service::ServiceThread::connecting().unwatch(fd);
}

// When the connecting thread comes no more.
void Conversation::cancel_attempt() noexcept {
  const std::lock_guard lock(connect_mutex_);
  if (attempt_ == nullptr) return;
  unwatch_attempt();
  provider_->attempt->cancel(std::exchange(attempt_, nullptr));
}

// Whether somebody listens decides what an automatic role becomes: that is mostly settled when open returns,
// where it takes but a moment. Waits for the connecting thread.
void Conversation::settle_role() noexcept {
  const Shared::Inside inside(shared_);
  const std::int64_t deadline = os::deadline_of(kSettleMs);
  const auto is_under_way = [this] {
    const std::lock_guard lock(connect_mutex_);
    return attempt_ != nullptr;
  };
  for (;;) {
    const std::uint32_t seen = shared_.changes.load(std::memory_order_acquire);  // sync: change
    if (phase_.load() != Phase::kOpen || !is_under_way()) return;
    if (os::wait_for_change(seen, deadline, shared_.changes) != LWMQ_OK) return;
  }
}

// Takes the next peer, if one waits: 0; else when to look again. On the attending thread.
std::int64_t Conversation::accept_next(std::int64_t now_ns) noexcept {
  for (std::uint32_t i = 0; i < kAcceptAttempts; ++i) {
    lwmq_tli_transport* transport = nullptr;
    const Status status = provider_->listener->accept(listener_.load(std::memory_order_relaxed), &transport);
    if (status == LWMQ_E_EMPTY) return service::kNever;  // the listener's descriptor calls us
    if (status != LWMQ_OK) {                             // a client that was refused: the next one
      clients_refused_.fetch_add(1, std::memory_order_relaxed);
      if (status == LWMQ_E_UNSUPPORTED) set_connect_failure(status);  // we cannot: no fault of the client's
      continue;
    }
    if (attach(transport)) return 0;
  }
  return now_ns + os::kMillisecond;  // others may wait behind them
}

Status Conversation::peer(lwmq_peer* out_peer) {
  if (is_closed() || os::forked()) return refuse_phase();
  return shared_.peers.tell(place_, out_peer);
}

// False: the transport is closed again, and the failure says why.
bool Conversation::attach(lwmq_tli_transport* transport) noexcept {
  lwmq_tli_peer peer{};
  tli_->peer(transport, &peer);
  if (const Status status = shared_.peers.meet(place_, peer, is_redundant()); status != LWMQ_OK) {
    set_connect_failure(status);
    tli_->close(transport, 0, 0);
    return false;
  }
  landing_.take();
  take_pump();
  const bool passes = settings_.passes && peer.drops != 0;
  sender_.attach(provider_, transport, passes && !is_redundant());  // a number travels with what is encoded
  receiver_.attach(transport, peer.buffers, passes);
  poll_transport();
  peer_gone_.store(false, std::memory_order_relaxed);
  note_unread(transport);
  attached_.store(transport, std::memory_order_release);
  {
    const std::lock_guard lock(failure_mutex_);
    failure_.forget();
    broken_.forget();
  }
  landing_.release();
  pump_and_release();  // what was queued while nobody was there
  shared_.announce();
  return true;
}

// ---- Attending --------------------------------------------------------------------------------------

// While there is a peer nobody is accepted: who tries to connect meanwhile waits, until it gives up.
void Conversation::tend_listener() noexcept {
  if (provider_->listener->tend == nullptr || attached_.load(std::memory_order_relaxed) == nullptr) return;
  if (auto* listener = listener_.load(std::memory_order_acquire); listener != nullptr)
    provider_->listener->tend(listener);
}

std::int64_t Conversation::attend(std::int64_t now_ns, bool alone) noexcept {
  // Only this thread takes a transport away, so that the one we see here stays.
  if (lwmq_tli_transport* transport = attached_.load(std::memory_order_acquire); transport != nullptr) {
    const bool gone =
        peer_gone_.load(std::memory_order_acquire) || tli_->state(transport, nullptr) != LWMQ_TLI_CONNECTED;
    if (gone && !retire()) return now_ns + os::kMillisecond;
  }
  if (attached_.load(std::memory_order_acquire) == nullptr) {
    if (for_one_peer_) return service::kNever;
    if (listener_.load(std::memory_order_acquire) == nullptr) {
      service::ServiceThread::connecting().request(&connect_);
      return service::kNever;
    }
    if (const std::int64_t again = accept_next(now_ns); again != 0) return again;
    // It may have come and gone while we had another peer. What it shipped counts: we hear it to its end.
    if (tli_->state(attached_.load(std::memory_order_relaxed), nullptr) != LWMQ_TLI_CONNECTED) return now_ns;
  }
  return std::min({ship_waiting(now_ns, alone), land_for_nobody(now_ns), tidy(now_ns)});
}

// Ships what a poster handed over. Between two calls the pump stays handed, so that posts are enqueues alone.
std::int64_t Conversation::ship_waiting(std::int64_t now_ns, bool alone) noexcept {
  if (!pump_.adopt()) return service::kNever;
  Completions completions;
  const std::uint64_t before = sender_.messages();
  Sent sent = pump(kShipBytes, completions);
  if (sent == Sent::kNoRoom) note_unread(sender_.transport());
  if (sent == Sent::kNoRoom && alone) {
    // A wait for room ends as soon as there is some; its limit is for those who may want us meanwhile.
    const std::int64_t limit = std::max(room_wait_ns_, os::kMillisecond);
    tli_->wait(sender_.transport(), LWMQ_TLI_WAIT_ROOM, static_cast<std::uint32_t>(limit / os::kMillisecond));
    sent = pump(kShipBytes, completions);
  }
  // A peer that does not read is asked less and less often.
  room_wait_ns_ = sender_.messages() != before
                      ? kRoomWaitMinNs
                      : std::clamp(room_wait_ns_ * 2, kRoomWaitMinNs, kRoomWaitMaxNs);
  switch (sent) {
    case Sent::kSome:
      pump_.hand_over();
      return now_ns;
    case Sent::kNoRoom:
      pump_.hand_over();
      return alone ? now_ns : now_ns + room_wait_ns_;
    case Sent::kAll:
      pump_and_release();  // looks again after the release
      shared_.changed();   // for those who flush
      return service::kNever;
    case Sent::kPeerGone:
      release_and_look();
      note_peer_gone();
      return service::kNever;
    case Sent::kNoPeer:
      release_and_look();
      return service::kNever;
  }
  return service::kNever;
}

// Ships a buffer that stays open while nothing is posted, and looks for the end of the peer's last buffer
// while nothing is received: so that what was read is also seen to have been read.
std::int64_t Conversation::tidy(std::int64_t now_ns) noexcept {
  if (!active_.load(std::memory_order_relaxed)) return service::kNever;
  const std::uint64_t sent = sender_.messages();
  const std::uint64_t received = receiver_.messages();
  const bool quiet = sent == sent_seen_ && received == received_seen_;
  if (sent == sent_seen_ && sender_.has_open_buffer() && pump_.try_take()) {
    sender_.ship_idle();
    release_and_look();
  }
  if (received == received_seen_ && queue_ == nullptr && landing_.try_take()) {
    const Status status = receiver_.look();
    if (status == LWMQ_E_CORRUPT) set_broken();
    landing_.release();
    if (is_peer_over(status)) note_peer_gone();
  }
  quiet_looks_ = quiet ? quiet_looks_ + 1 : 0;
  sent_seen_ = sent;
  received_seen_ = received;
  if (quiet_looks_ < kQuietLooks || sender_.has_open_buffer() || (erases() && !has_erased())) {
    return now_ns + (kTick << std::min(quiet_looks_, kQuietLooks));
  }
  quiet_looks_ = 0;
  active_.store(false, std::memory_order_relaxed);
  os::heavy_barrier_within();  // sync: activity
  if (sender_.messages() == sent_seen_ && receiver_.messages() == received_seen_) return service::kNever;
  active_.store(true, std::memory_order_relaxed);
  return now_ns + kTick;
}

// Erases what the peer has released by now. False: it holds more, or somebody ships just now.
bool Conversation::has_erased() noexcept {
  if (!pump_.try_take()) return false;
  lwmq_tli_transport* transport = sender_.transport();
  lwmq_tli_figures figures{};
  if (transport != nullptr) tli_->state(transport, &figures);
  const bool all =
      transport == nullptr || figures.free_buffers + raw_lent_ >= settings_.transport.buffers_send;
  release_and_look();
  return all;
}

// Of the peer that broke the protocol, with its text.
Status Conversation::said_broken() noexcept {
  const std::lock_guard lock(failure_mutex_);
  return broken_.tell();
}

// Ends the conversation with a peer that is gone: what it committed goes among the arrivals, then the
// report; what we shipped and did not see read is counted as lost. False: the application is receiving just
// now, or there is no memory for what is left; try again.
bool Conversation::retire() noexcept {
  Completions completions;  // gone when nothing is locked
  std::unique_ptr<Report> report = Report::make();
  if (report == nullptr || !landing_.try_take()) return false;
  take_pump();
  lwmq_tli_transport* transport = sender_.transport();
  Status status = said_broken();
  if (status == LWMQ_OK) status = receiver_.drain();
  if (queue_ != nullptr && status != LWMQ_E_NO_MEMORY) {  // what was no message shows where it is decoded
    if (land_into_queue(receiver_.waiting(), true, completions) == Left::kNoMemory) status = LWMQ_E_NO_MEMORY;
    if (const Status broken = said_broken(); broken != LWMQ_OK) status = broken;
  }
  if (status == LWMQ_E_NO_MEMORY || !receiver_.has_room()) {
    release_and_look();
    landing_.release();
    return false;
  }
  if (status == LWMQ_E_EMPTY) {
    const std::int32_t state = tli_->state(transport, nullptr);
    if (state == LWMQ_TLI_CONNECTED && sender_.refusals() < kRefusalsMax) {  // a false alarm
      peer_gone_.store(false, std::memory_order_relaxed);
      const bool at_once = sender_.refusals() == 0;
      release_and_look();
      landing_.release();
      shared_.announce();
      return at_once;
    }
    status = state == LWMQ_TLI_CONNECTED ? sender_.refuse()
             : state == LWMQ_TLI_CLOSED  ? LWMQ_E_CLOSED
                                         : LWMQ_E_PEER_LOST;
  }
  lwmq_tli_figures figures{};
  const bool has_closed = tli_->state(transport, &figures) == LWMQ_TLI_CLOSED;
  std::uint64_t unsent = has_closed ? figures.unsent : 0;  // what it had for us and never shipped
  if (status == LWMQ_E_CLOSED && unsent > 0) status = LWMQ_E_PEER_LOST;
  const bool reached = shared_.peers.part(place_, is_redundant(), has_dropped(), &status, &unsent);
  const std::uint64_t unread = count_unread(figures.unread_extents);
  if (unread > 0) cuts_.fetch_add(1, std::memory_order_relaxed);
  const std::uint64_t lost = reached ? 0 : unread;  // what is lost here comes to it the other way
  messages_lost_.fetch_add(lost, std::memory_order_relaxed);
  if (status != LWMQ_E_CLOSED) {
    peers_lost_.fetch_add(1, std::memory_order_relaxed);
    stats::add(stats::process().peers_lost, 1);
  }
  if (!reached) {  // so does its end
    say_end_of_peer(status, transport, lost, unsent, *report);
    report->end = shared_.ends.fetch_add(1, std::memory_order_relaxed) + 1;
    receiver_.report(std::move(report));
  }
  if (queue_ != nullptr) land_into_queue(receiver_.waiting(), true, completions);  // the report, too
  poll_transport_no_more();
  sender_.detach();
  receiver_.detach();
  attached_.store(nullptr);  // sync: ended
  peer_gone_.store(false, std::memory_order_relaxed);
  end_without_peer();
  keep_raw_lent(transport);
  release_and_look();
  landing_.release();
  close_transport(transport, 0);
  shared_.announce();  // followers, too
  return true;
}

// Of what was shown to the attached peer, how many messages it has not read, as far as we can know: what it
// said before it closed, else the extents that its transport's figures say.
std::uint64_t Conversation::count_unread(std::uint64_t unread_extents) const noexcept {
  const auto received = receiver_.goodbye();
  if (!received) return unread_extents;
  const std::uint64_t sent = sender_.messages_to_peer();
  return sent - std::min(sent, *received);
}

// What the application hears, once, behind everything that the peer had committed.
void Conversation::say_end_of_peer(Status status, lwmq_tli_transport* transport, std::uint64_t lost,
                                   std::uint64_t unsent, Report& report) noexcept {
  lwmq_tli_peer peer{};
  tli_->peer(transport, &peer);
  char short_of[96];
  std::snprintf(short_of, sizeof short_of,
                "has closed before it had shipped all: %" PRIu64 " messages never came", unsent);
  const bool has_reason = status != LWMQ_E_CLOSED && status != LWMQ_E_PEER_LOST;
  const char* what = status == LWMQ_E_CLOSED ? "has closed"
                     : unsent > 0            ? short_of
                     : has_reason            ? "was dropped"
                                             : "was lost";
  char reason[256] = "";
  if (has_reason) std::snprintf(reason, sizeof reason, ": %.250s", last_error());
  char unread[128] = "";
  if (lost > 0) {
    std::snprintf(unread, sizeof unread, "; %" PRIu64 " messages were shipped to it and not seen read", lost);
  }
  report.status = status;
  report.lost = lost;
  std::snprintf(report.text, sizeof report.text, "the peer, %s, %s%s%s (%s)", peer.name, what, reason, unread,
                settings_.address.c_str());
}

}  // namespace lwmq::conversation
