// What the service thread does for a conversation: connects, accepts, attaches, ships what waited, tidies up,
// and retires a lost peer.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "conversation/conversation.h"
#include "os/clock.h"
#include "os/deadline.h"
#include "os/futex.h"
#include "os/identity.h"
#include "os/membarrier.h"
#include "stats/process_counters.h"
#include "tli/registry.h"

namespace lwmq::conversation {

namespace {

// Time for a server to answer. An attempt costs nothing meanwhile, so a stopped server is given time.
constexpr std::int64_t kHandshakeNs = 10'000 * os::kMillisecond;
constexpr std::uint32_t kOpenMs = 200;                   // of that time, in open
constexpr std::int64_t kStepNs = 10 * os::kMillisecond;  // between two steps
// The end of an activity is noticed after one tick. A receiver that may have missed the end of a buffer looks
// again after 5, 10, 20 ... ms, so that it still sees what a peer has shipped whose thread was not running.
constexpr std::int64_t kTick = 5 * os::kMillisecond;
constexpr std::uint32_t kQuietLooks = 6;
constexpr std::int64_t kRoomWaitMinNs = 50'000;  // memory moves less than a window of 2 MiB in that time
constexpr std::int64_t kRoomWaitMaxNs = 32 * os::kMillisecond;
constexpr std::uint64_t kShipBytes = std::uint64_t{1} << 20;  // before other conversations have their turn
constexpr std::uint32_t kAcceptAttempts = 16;
// Refusals of a transport that says that it is connected, a millisecond apart, before it is given up.
constexpr std::uint32_t kRefusalsMax = 100;

// Whether the next attempt will fail again unless something is changed.
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

void Conversation::changed() noexcept {
  changes_.fetch_add(1, std::memory_order_release);  // sync: change
  os::futex_wake_all(changes_, os::Sleepers::kOfThisProcess);
  if (queue_ != nullptr) {
    leaves_.fetch_add(1, std::memory_order_release);  // sync: leave
    os::futex_wake_all(leaves_, os::Sleepers::kOfThisProcess);
  }
  if (shared_.several) shared_.changed();
}

// Wakes threads that wait and threads that poll: a receive has something to say.
void Conversation::announce() noexcept {
  changed();
  ring();
}

// Updates what `lwmq top` shows. The service thread calls this while the conversation is in use, and once
// after.
void Conversation::note_figures() noexcept {
  stats::Entry& entry = *entry_;
  lwmq_tli_peer peer{};
  lwmq_tli_transport* transport = attached_.load(std::memory_order_acquire);  // only we take it away
  if (transport != nullptr) tli_.peer(transport, &peer);
  stats::set(entry.peer_pid, peer.pid);
  stats::set(entry.flags, (transport != nullptr ? stats::kEntryConnected : 0) |
                              (is_server_.load(std::memory_order_relaxed) ? stats::kEntryServer : 0));
  stats::set(entry.messages_sent, sender_.messages());
  stats::set(entry.messages_received, receiver_.messages());
  stats::set(entry.bytes_sent, sender_.bytes());
  stats::set(entry.bytes_received, receiver_.bytes());
  stats::set(entry.messages_queued, raw_ ? 0 : scheduler_.message_count());
  stats::set(entry.messages_lost, messages_lost_.load(std::memory_order_relaxed));
  stats::set(entry.messages_posted, raw_ ? sender_.messages() : scheduler_.posted());
  if (queue_ != nullptr && place_ == 0) {  // the conversations of a channel share one
    stats::set(entry.receive_queued, queue_->size());
    stats::set(entry.messages_discarded, queue_->discarded());
  }
  stats::set(entry.clients_refused, clients_refused_.load(std::memory_order_relaxed));
  if (place_ == 0 && shared_.redundant) stats::set(entry.duplicates_dropped, shared_.merge->duplicates());
  if (!raw_) note_queues();
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
  announce();
}

// The last failure, until an attempt succeeds. Where there are several transports it is told once, because
// the others go on.
Status Conversation::connect_failure() {
  const std::lock_guard lock(failure_mutex_);
  if (shared_.several && std::exchange(failure_told_, true)) return LWMQ_OK;
  return failure_.tell();
}

// LWMQ_E_TIMED_OUT, with a text where more is known.
Status Conversation::nobody_came() {
  const std::lock_guard lock(failure_mutex_);
  return awaited_[0] == '\0' ? LWMQ_E_TIMED_OUT : fail(LWMQ_E_TIMED_OUT, "%s", awaited_.data());
}

void Conversation::report_connect_failure() {
  if (attached_.load(std::memory_order_acquire) != nullptr) return;
  std::unique_ptr<Report> report = Report::make();
  if (report == nullptr) return;  // the next look reports it
  if (const Status status = connect_failure(); status != LWMQ_OK) {
    report->set(status, last_error());
    queue_->report(std::move(report));
  }
}

// With the landing side in hand.
void Conversation::set_broken(Status status) noexcept {
  receiver_.break_off();
  const std::lock_guard lock(failure_mutex_);
  if (broken_.status() == LWMQ_OK) broken_.keep(status);  // the first failure counts
}

// ---- Meeting ----------------------------------------------------------------------------------------

Status Conversation::listen() noexcept {
  lwmq_tli_listener* listener = nullptr;
  auto options = tli_options_;
  options.ring = [](void* self) {
    service::ServiceThread::attending().request(&static_cast<Conversation*>(self)->attend_);
  };
  options.ring_context = this;
  Status status = tli::listen(*provider_, address_.c_str(), options, &listener);
  if (status != LWMQ_OK) return status;
  const int fd = listener_tli_.descriptor(listener);
  if (fd >= 0) status = service::ServiceThread::attending().watch(&attend_, fd);
  if (status != LWMQ_OK) {
    listener_tli_.close(listener);
    return status;
  }
  is_server_.store(true, std::memory_order_relaxed);
  listener_.store(listener, std::memory_order_release);
  return LWMQ_OK;
}

const char* Conversation::bound_address() const noexcept {
  return tli::bound_address(listener_tli_, listener_.load(std::memory_order_acquire), address_);
}

// On the service thread. Returns when to come again; 0: there is a peer, or a listener.
std::int64_t Conversation::connect(std::int64_t now_ns) noexcept {
  if (role_ == LWMQ_ROLE_SERVER) return service::kNever;
  // One thread at a time: a thread that looked before another one has bound the address would connect the
  // channel to itself.
  const std::lock_guard lock(connect_mutex_);
  if (attached_.load(std::memory_order_acquire) != nullptr ||
      listener_.load(std::memory_order_acquire) != nullptr)
    return 0;
  if (meeting_ == nullptr && now_ns < next_meeting_ns_) return next_meeting_ns_;
  Status status = LWMQ_OK;
  if (meeting_ == nullptr) {
    next_meeting_ns_ = now_ns + retry_ms_ * os::kMillisecond;
    meeting_until_ns_ = now_ns + kHandshakeNs;
    status = tli::connect(*provider_, address_.c_str(), tli_options_, &meeting_);
  }
  if (status == LWMQ_OK) status = proceed(now_ns);
  if (status == LWMQ_E_FULL) return now_ns + kStepNs;
  return conclude_meeting(status) ? 0 : next_meeting_ns_;
}

// With connect_mutex_: the next step of the attempt that has begun. LWMQ_E_FULL: there are more steps.
Status Conversation::proceed(std::int64_t now_ns) noexcept {
  auto& thread = service::ServiceThread::attending();
  if (meeting_fd_ >= 0) thread.unwatch(std::exchange(meeting_fd_, -1));
  const Status status = tli::proceed(*provider_, address_.c_str(), meeting_);
  {
    const std::lock_guard lock(failure_mutex_);
    std::snprintf(awaited_.data(), awaited_.size(), "%s", last_error());
  }
  if (status != LWMQ_E_FULL) {
    if (status != LWMQ_OK) meeting_ = nullptr;  // proceed has closed it
    return status;
  }
  if (now_ns >= meeting_until_ns_) {
    tli_.close(std::exchange(meeting_, nullptr), 0, 0);
    return LWMQ_E_TIMED_OUT;
  }
  meeting_fd_ = tli_.descriptor(meeting_);
  if (meeting_fd_ >= 0 && thread.watch(&attend_, meeting_fd_) != LWMQ_OK) meeting_fd_ = -1;
  return LWMQ_E_FULL;
}

// With connect_mutex_: ends an attempt. True: there is a peer, or the address is served.
bool Conversation::conclude_meeting(Status status) noexcept {
  lwmq_tli_transport* const transport = std::exchange(meeting_, nullptr);
  if (status == LWMQ_OK) {
    if (attach(transport)) return true;
    status = LWMQ_E_INVALID;
  }
  if (status == LWMQ_E_EMPTY && role_ == LWMQ_ROLE_AUTO) {
    status = listen();
    if (status == LWMQ_OK) {
      set_connect_failure(LWMQ_OK);
      return true;
    }
    if (status == LWMQ_E_ADDRESS) {  // another process was quicker: connect to that
      next_meeting_ns_ = os::now_ns() + os::kMillisecond;
      return false;
    }
  }
  set_connect_failure(status);
  return false;
}

// For open, in the automatic role: goes as far as it can at once.
void Conversation::meet_now() noexcept {
  const std::lock_guard lock(connect_mutex_);
  next_meeting_ns_ = os::now_ns() + retry_ms_ * os::kMillisecond;
  conclude_meeting(tli::connect(*provider_, address_.c_str(), tli_options_, kOpenMs, &meeting_));
}

// After the service thread was told to leave this alone.
void Conversation::give_up_meeting() noexcept {
  const std::lock_guard lock(connect_mutex_);
  if (meeting_fd_ >= 0) service::ServiceThread::attending().unwatch(std::exchange(meeting_fd_, -1));
  if (meeting_ != nullptr) tli_.close(std::exchange(meeting_, nullptr), 0, 0);
}

// On the service thread. Takes the next peer: 0. If none waits, returns when to look again.
std::int64_t Conversation::accept_next(std::int64_t now_ns) noexcept {
  for (std::uint32_t i = 0; i < kAcceptAttempts; ++i) {
    lwmq_tli_transport* transport = nullptr;
    const Status status = listener_tli_.accept(listener_.load(std::memory_order_relaxed), &transport);
    if (status == LWMQ_E_EMPTY) return service::kNever;  // the listener's descriptor will wake this thread
    if (status != LWMQ_OK) {                             // a client was refused: try the next one
      clients_refused_.fetch_add(1, std::memory_order_relaxed);
      if (status == LWMQ_E_UNSUPPORTED) set_connect_failure(status);  // the failure is on this side
      continue;
    }
    if (attach(transport)) return 0;
  }
  return now_ns + os::kMillisecond;  // others may wait behind them
}

Status Conversation::peer(lwmq_peer* out_peer) {
  if (phase_.load() == Phase::kClosed || os::forked()) return refuse_phase();
  return shared_.peers.query(place_, out_peer);
}

// False: the transport is closed again, and the failure says why.
bool Conversation::attach(lwmq_tli_transport* transport) noexcept {
  lwmq_tli_peer peer{};
  tli_.peer(transport, &peer);
  if (const Status status = shared_.peers.meet(place_, peer, shared_.redundant); status != LWMQ_OK) {
    set_connect_failure(status);
    tli_.close(transport, 0, 0);
    return false;
  }
  landing_.take();
  take_pump();
  const bool passes = passes_ && peer.drops != 0;
  sender_.attach(provider_, transport,
                 passes && !shared_.redundant);  // a number travels only with an encoded message
  receiver_.attach(transport, peer.buffers, passes);
  poll_transport();
  peer_gone_.store(false, std::memory_order_relaxed);
  lwmq_tli_figures figures{};
  tli_.state(transport, &figures);
  free_buffers_seen_.store(figures.free_buffers, std::memory_order_relaxed);
  attached_.store(transport, std::memory_order_release);
  {
    const std::lock_guard lock(failure_mutex_);
    failure_.forget();
    broken_.forget();
  }
  landing_.release();
  pump_and_release();  // what was queued while no peer was attached
  announce();
  return true;
}

// ---- Attending --------------------------------------------------------------------------------------

// Where transports are redundant: the merge has a message after some time even if nothing comes. Then threads
// that poll are woken.
std::int64_t Conversation::attend_merge(std::int64_t now_ns) noexcept {
  if (place_ != 0) return service::kNever;
  const std::int64_t until = shared_.merge_until_ns.load(std::memory_order_relaxed);
  if (until == 0) return service::kNever;
  if (now_ns < until) return until;
  shared_.merge_until_ns.store(0, std::memory_order_relaxed);
  ring();
  return service::kNever;
}

// While there is a peer, no other client is accepted: it gives up after some time, and tries again.
void Conversation::tend_listener() noexcept {
  if (listener_tli_.tend == nullptr || attached_.load(std::memory_order_relaxed) == nullptr) return;
  if (auto* listener = listener_.load(std::memory_order_acquire); listener != nullptr)
    listener_tli_.tend(listener);
}

std::int64_t Conversation::attend(std::int64_t now_ns, bool alone) noexcept {
  // Only this thread takes a transport away, so the one seen here stays.
  if (lwmq_tli_transport* transport = attached_.load(std::memory_order_acquire); transport != nullptr) {
    const bool gone =
        peer_gone_.load(std::memory_order_acquire) || tli_.state(transport, nullptr) != LWMQ_TLI_CONNECTED;
    if (gone && !retire()) return now_ns + os::kMillisecond;
  }
  if (attached_.load(std::memory_order_acquire) == nullptr) {
    if (for_one_peer_) return service::kNever;
    if (listener_.load(std::memory_order_acquire) == nullptr) {
      if (const std::int64_t again = connect(now_ns); again != 0) return again;
    }
    if (attached_.load(std::memory_order_acquire) == nullptr) {
      if (const std::int64_t again = accept_next(now_ns); again != 0) return again;
    }
    // The peer may have come and gone while another one was attached. What it shipped counts: it is received
    // to its end.
    if (tli_.state(attached_.load(std::memory_order_relaxed), nullptr) != LWMQ_TLI_CONNECTED) return now_ns;
  }
  return std::min({ship_waiting(now_ns, alone), land_for_nobody(now_ns), tidy(now_ns)});
}

// Ships what a poster has handed over. Between two calls the pump stays handed over, so that posts only
// enqueue.
std::int64_t Conversation::ship_waiting(std::int64_t now_ns, bool alone) noexcept {
  if (!pump_.adopt()) return service::kNever;
  Completions completions;
  const std::uint64_t before = sender_.messages();
  Sent sent = pump(kShipBytes, completions);
  if (sent == Sent::kNoRoom) note_unread(sender_.transport());
  if (sent == Sent::kNoRoom && alone) {
    // The wait ends as soon as there is room. Its limit is for others that may want this thread meanwhile.
    const std::int64_t limit = std::max(room_wait_ns_, os::kMillisecond);
    tli_.wait(sender_.transport(), LWMQ_TLI_WAIT_ROOM, static_cast<std::uint32_t>(limit / os::kMillisecond));
    sent = pump(kShipBytes, completions);
  }
  // The less a peer reads, the less often it is asked.
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
      changed();           // for threads that flush
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

// Ships a buffer that stays open while nothing is posted. Looks for the end of the peer's last buffer while
// nothing is received, so that the peer sees that it was read.
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
    if (status == LWMQ_E_CORRUPT) set_broken(status);
    landing_.release();
    if (is_peer_over(status)) note_peer_gone();
  }
  quiet_looks_ = quiet ? quiet_looks_ + 1 : 0;
  sent_seen_ = sent;
  received_seen_ = received;
  if (quiet_looks_ < kQuietLooks || sender_.has_open_buffer() || (secure_erase_ && !has_erased())) {
    return now_ns + (kTick << std::min(quiet_looks_, kQuietLooks));
  }
  quiet_looks_ = 0;
  active_.store(false, std::memory_order_relaxed);
  os::heavy_barrier_within();  // sync: activity
  if (sender_.messages() == sent_seen_ && receiver_.messages() == received_seen_) return service::kNever;
  active_.store(true, std::memory_order_relaxed);
  return now_ns + kTick;
}

// Erases what the peer has released by now. False: it holds more, or another thread ships just now.
bool Conversation::has_erased() noexcept {
  if (!pump_.try_take()) return false;
  lwmq_tli_transport* transport = sender_.transport();
  lwmq_tli_figures figures{};
  if (transport != nullptr) tli_.state(transport, &figures);
  const bool all = transport == nullptr || figures.free_buffers + raw_lent_ >= tli_options_.buffers_send;
  release_and_look();
  return all;
}

// The failure of a peer that broke the protocol, with its text.
Status Conversation::said_broken() noexcept {
  const std::lock_guard lock(failure_mutex_);
  return broken_.tell();
}

// Parts from a peer that is gone. What it had committed goes among the arrivals, then a report. What was
// shipped to it and not seen read is counted as lost. False: the application is receiving just now, or there
// is no memory for what is left; try again.
bool Conversation::retire() noexcept {
  Completions completions;  // destroyed when nothing is locked
  std::unique_ptr<Report> report = Report::make();
  if (report == nullptr || !landing_.try_take()) return false;
  take_pump();
  lwmq_tli_transport* transport = sender_.transport();
  Status status = said_broken();
  if (status == LWMQ_OK) status = receiver_.drain();
  if (queue_ != nullptr && status != LWMQ_E_NO_MEMORY) {  // a corrupt message shows when it is decoded
    if (land_into_queue(receiver_.waiting(), true, completions) == Left::kNoMemory) status = LWMQ_E_NO_MEMORY;
    if (const Status broken = said_broken(); broken != LWMQ_OK) status = broken;
  }
  if (status == LWMQ_E_NO_MEMORY || !receiver_.has_room()) {
    release_and_look();
    landing_.release();
    return false;
  }
  if (status == LWMQ_E_EMPTY) {
    const std::int32_t state = tli_.state(transport, nullptr);
    if (state == LWMQ_TLI_CONNECTED && sender_.refusals() < kRefusalsMax) {  // a false alarm
      peer_gone_.store(false, std::memory_order_relaxed);
      const bool at_once = sender_.refusals() == 0;
      release_and_look();
      landing_.release();
      announce();
      return at_once;
    }
    status = state == LWMQ_TLI_CONNECTED ? sender_.refuse()
             : state == LWMQ_TLI_CLOSED  ? LWMQ_E_CLOSED
                                         : LWMQ_E_PEER_LOST;
  }
  std::uint64_t unsent = unsent_by(transport);
  if (status == LWMQ_E_CLOSED && unsent > 0) status = LWMQ_E_PEER_LOST;
  const bool reached = shared_.peers.part(place_, shared_.redundant, !has_dropped(), &status, &unsent);
  const std::uint64_t unread = count_unread(transport);
  if (unread > 0) cuts_.fetch_add(1, std::memory_order_relaxed);
  const std::uint64_t lost = reached ? 0 : unread;  // else the peer gets them over another way
  messages_lost_.fetch_add(lost, std::memory_order_relaxed);
  if (status != LWMQ_E_CLOSED) {
    peers_lost_.fetch_add(1, std::memory_order_relaxed);
    stats::add(stats::process().peers_lost, 1);
  }
  if (!reached) {  // else another way reports the end
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
  announce();  // followers, too
  return true;
}

// How many messages that were shown to the attached peer it has not read, as far as can be known: what it
// said before it closed, or else the extents in buffers that it has not given back.
std::uint64_t Conversation::count_unread(lwmq_tli_transport* transport) noexcept {
  const auto received = receiver_.goodbye();
  if (!received) {
    lwmq_tli_figures figures{};
    tli_.state(transport, &figures);
    return figures.unread_extents;
  }
  const std::uint64_t sent = sender_.messages_to_peer();
  return sent - std::min(sent, *received);
}

// With the pump in hand: how many messages the peer still had when it closed, and never shipped.
std::uint64_t Conversation::unsent_by(lwmq_tli_transport* transport) const noexcept {
  lwmq_tli_figures figures{};
  return tli_.state(transport, &figures) == LWMQ_TLI_CLOSED ? figures.unsent : 0;
}

// The report that the application gets, once, after everything that the peer had committed.
void Conversation::say_end_of_peer(Status status, lwmq_tli_transport* transport, std::uint64_t lost,
                                   std::uint64_t unsent, Report& report) noexcept {
  lwmq_tli_peer peer{};
  tli_.peer(transport, &peer);
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
                address_.c_str());
}

}  // namespace lwmq::conversation
