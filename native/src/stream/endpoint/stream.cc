#include "stream/endpoint/stream.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "address/options.h"
#include "os/clock.h"
#include "os/identity.h"
#include "stats/process_counters.h"

namespace lwmq::stream {
namespace {

// Rounds without news before the thread sleeps. Few: on two cores it takes time from its own clients.
constexpr std::uint32_t kIdleRounds = 64;
constexpr std::uint32_t kRoundsToCatchUp = 64;
constexpr std::int64_t kNapNs = 200'000;          // for so long a client that serves counts as serving
constexpr std::int64_t kLookSoonNs = 5'000'000;   // where no peer rings
constexpr std::uint32_t kMessagesPerRound = 256;  // of one client, so that none keeps the others waiting

std::string random_generation() {
  std::string bytes(16, '\0');
  os::random_bytes(bytes.data(), bytes.size());
  return bytes;
}

}  // namespace

void Common::ring() noexcept { service::ServiceThread::streaming().request(served); }

Stream::Stream(const std::string& endpoint, std::string name, bool by_this_process, Common* common)
    : made_here(by_this_process),
      name_(std::move(name)),
      id_{address::StreamAddress{endpoint, name_}.text(), random_generation()},
      common_(*common),
      entry_(stats::open_entry(stats::EntryKind::kEndpoint, id_.address.c_str(), name_.c_str())) {}

Stream::~Stream() {
  clients_.clear();          // closes every link in order
  if (os::forked()) return;  // a thread of the parent may have held the lock
  const std::lock_guard lock(common_.mutex);
  if (at_rest_) return;
  --common_.restless;
  common_.rested.notify_all();
}

// ---- Serving ----------------------------------------------------------------------------------------

void Stream::pump() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  ++pumped_;
  if (asleep_) {  // peers ring for nobody from now on: the thread must look by itself
    wake_up();
    common_.ring();
  }
  poll();
}

void Stream::hand_over() noexcept {
  if (napping_.exchange(false)) common_.ring();
}

void Stream::inherit(const Window& ledger, const std::string& place, std::vector<Window> windows) {
  const std::lock_guard lock(mutex_);
  const auto is_of = [&](const auto& c) { return c->pool && c->pool->ledger.window().is(ledger); };
  const auto found = std::ranges::find_if(clients_, is_of);
  if (found != clients_.end()) (*found)->pool->inherit(place, std::move(windows));
}

std::int64_t Stream::serve() {
  const std::lock_guard lock(mutex_);
  if (napping_.load()) {
    if (os::now_ns() < nap_until_ns_) return nap_until_ns_;
    napping_.store(false);
  }
  if (poll()) {
    idle_rounds_ = 0;
    return 0;
  }
  if (++idle_rounds_ < kIdleRounds) return 0;
  idle_rounds_ = 0;
  if (std::exchange(pumped_seen_, pumped_) != pumped_) {
    nap_until_ns_ = os::now_ns() + kNapNs;
    napping_.store(true);
    return nap_until_ns_;
  }
  note_rest();
  return fall_asleep() ? service::kNever : 0;
}

// An armed link rings once. So nothing is received from it before it is disarmed: what rang would no longer
// be seen, and nothing would ring again.
bool Stream::look(std::int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  if (!asleep_) return true;
  if (now_ns < alarm_ns_ && !has_rung()) return false;
  wake_up();
  return true;
}

bool Stream::has_rung() noexcept {
  return std::ranges::any_of(clients_, [](const auto& c) { return c->link.has_rung(); });
}

// False: something has come meanwhile.
bool Stream::fall_asleep() {
  bool news = false;
  bool look_soon = false;
  common_.look_at_all.store(true);
  for (const auto& c : clients_) {
    const std::int32_t armed = c->link.arm();
    news |= armed > 0;
    look_soon |= armed < 0;
    // Nobody rings when a writer or a reader looks for the windows that it was shown.
    look_soon |= c->pool && c->pool->wants_room && c->pool->has_introductions();
    look_soon |= c->reader && c->reader->behind;
  }
  asleep_ = true;
  if (news) {
    wake_up();
    return false;
  }
  alarm_ns_ = service::kNever;
  if (look_soon) {
    alarm_ns_ = os::now_ns() + kLookSoonNs;
  } else if (watch_.at_ns() != 0) {
    const std::int64_t left_ns = std::max<std::int64_t>(0, watch_.at_ns() - os::coarse_now_ns());
    alarm_ns_ = os::now_ns() + left_ns + 1'000'000;
  }
  return true;
}

void Stream::wake_up() {
  asleep_ = false;
  for (const auto& c : clients_) c->link.disarm();
  common_.look_at_all.store(true);  // behind that: another thread may look at once
}

void Stream::add(std::unique_ptr<Client> client) {
  const std::lock_guard lock(mutex_);
  if (asleep_) wake_up();
  clients_.push_back(std::move(client));
}

bool Stream::catch_up() {
  const std::lock_guard lock(mutex_);
  if (asleep_) {
    if (!has_rung()) return false;
    wake_up();
  }
  for (std::uint32_t i = 0; i < kRoundsToCatchUp && poll(); ++i) {
  }
  note_rest();
  return true;
}

bool Stream::poll() {
  bool busy = false;
  for (const auto& c : clients_) busy |= poll_client(*c);
  if (busy) {
    note_restless();
    forget_left();
    note_figures();
  }
  if (watch_.at_ns() != 0 && os::coarse_now_ns() >= watch_.at_ns()) {
    watch_.look();
    spread_news();
    note_figures();
  }
  return busy;
}

bool Stream::poll_client(Client& c) {
  if (c.over) return true;
  bool busy = false;
  if (c.link.has_backlog()) busy = c.link.flush();
  if (c.pool && c.pool->has_untold()) c.pool->tell_writer();
  if (c.reader && c.reader->behind) {
    readers_.advance(c);
    spread_news();
  }
  std::string bytes;
  for (std::uint32_t i = 0; i < kMessagesPerRound; ++i) {
    wire::StreamKind kind{};
    Status status = c.link.receive(&kind, &bytes);
    if (status == LWMQ_E_EMPTY) return busy;
    busy = true;
    if (status == LWMQ_OK) status = handle(c, kind, bytes);
    if (status != LWMQ_OK) leave(c, status);
    spread_news();
    if (c.over) return true;
  }
  return busy;
}

// ---- Messages ---------------------------------------------------------------------------------------

Status Stream::handle(Client& c, wire::StreamKind kind, const std::string& bytes) {
  using wire::StreamKind;
  switch (kind) {
    case StreamKind::kPublish:
      return writers_.publish(c, bytes);
    case StreamKind::kConsumed:
      return readers_.consumed(c, bytes);
    case StreamKind::kOpenWriter:
      return writers_.open(c, bytes);
    case StreamKind::kOpenJob:
      return writers_.open_job(c, bytes);
    case StreamKind::kOpenReader:
      return readers_.open(c, bytes);
    case StreamKind::kWindow:
      return Writers::add_window(c, bytes);
    case StreamKind::kLease:
      return readers_.lease(c, bytes);
    case StreamKind::kWantRoom: {
      const Status status = writers_.want_room(c, bytes);
      watch_.note_waits();
      return status;
    }
    case StreamKind::kCloseWriter: {
      const Status status = writers_.close(c);
      watch_.note_waits();
      return status;
    }
    case StreamKind::kAbortWriter:
      return writers_.abort(c, bytes);
    case StreamKind::kCommitTask:
      return writers_.commit_task(c);
    case StreamKind::kCommitJob:
      return writers_.commit_job(c, bytes);
    case StreamKind::kAbortJob:
      return writers_.abort_job(c, bytes);
    case StreamKind::kCloseJob:
      return writers_.close_job(c);
    case StreamKind::kAbandonReader:
      if (!c.reader) break;
      c.reader->abandoned = true;
      return LWMQ_E_CLOSED;
    case StreamKind::kDescribe: {
      wire::Describe letter;
      if (!wire::decode(bytes, &letter)) break;
      c.wants_description = letter.wait_declared != 0 && !log_.is_declared();
      return c.wants_description ? LWMQ_OK : c.link.send_letter(StreamKind::kState, state());
    }
    case StreamKind::kSettle:
      return readers_.settle(c, bytes);
    case StreamKind::kPing:
      // A client that has not taken what was sent before hears from us in any case.
      // Of one that has left meanwhile, what it sent behind this is still read.
      if (!c.link.has_backlog()) c.link.send(StreamKind::kPong, nullptr, 0);
      return LWMQ_OK;
    case StreamKind::kExpelled:
      if (!c.reader || !c.reader->expelled) break;
      Readers::end_quarantine(*c.reader);
      return LWMQ_OK;
    default:
      break;
  }
  return unexpected(kind, bytes);
}

// In this order: each may make news for those behind it.
void Stream::spread_news() {
  if (std::exchange(news_.declared, false)) {
    readers_.declare_to_all();
    for (const auto& c : clients_) {
      if (std::exchange(c->wants_description, false)) c->link.send_letter(wire::StreamKind::kState, state());
    }
  }
  if (std::exchange(news_.for_readers, false)) readers_.advance_all();
  if (std::exchange(news_.for_writers, false)) writers_.report_drained();
  if (std::exchange(news_.reader_moved, false)) watch_.note_moved();
}

// The client has gone, in order or not, or broke the protocol; or this process lacks what it takes to go on
// with it.
void Stream::leave(Client& c, Status why) {
  c.over = true;
  tell_failure(c, id_.address, why);
  if (why == LWMQ_E_PEER_LOST) stats::add(stats::process().peers_lost, 1);
  writers_.leave(c, why);
  if (!c.reader) return;
  readers_.leave(c, why);
  reader_left_ = true;
}

// Closes the links of clients that have left, and lets go of what only they held up.
void Stream::forget_left() {
  if (std::erase_if(clients_, [](const auto& c) { return c->over; }) == 0) return;
  readers_.count_sharers();
  if (!std::exchange(reader_left_, false)) return;
  readers_.sweep();
  news_.for_readers = news_.for_writers = true;
  spread_news();
}

// ---- How things stand -------------------------------------------------------------------------------

// Something has come: whoever waits for rest must not go by an old answer.
void Stream::note_restless() {
  if (std::exchange(restless_noted_, true)) return;
  const std::lock_guard lock(common_.mutex);
  if (std::exchange(at_rest_, false)) ++common_.restless;
}

void Stream::note_rest() {
  restless_noted_ = false;
  const bool rests = unfinished().empty();
  const std::lock_guard lock(common_.mutex);
  if (rests == std::exchange(at_rest_, rests)) return;
  rests ? --common_.restless : ++common_.restless;
  if (rests) common_.rested.notify_all();
}

bool Stream::is_unused() {
  const std::lock_guard lock(mutex_);
  if (!clients_.empty() || log_.figures().kept_batches != 0 || !unfinished().empty()) return false;
  const std::lock_guard common_lock(common_.mutex);
  return users == 0;
}

std::string Stream::what_is_left() {
  const std::lock_guard lock(mutex_);
  return unfinished();
}

std::string Stream::unfinished() const {
  std::uint32_t readers = 0;
  std::uint64_t reader_pid = 0, writer_pid = 0;  // of one of each
  bool unsent = false;
  for (const auto& c : clients_) {
    if (c->reader && !c->reader->done && c->reader->options.follow == 0 && !readers_.is_late(*c->reader))
      ++readers, reader_pid = c->peer.pid;
    if ((c->writer && !c->writer->closing) || c->job) writer_pid = c->peer.pid;
    unsent = unsent || c->link.has_backlog();
  }
  const std::uint64_t batches = log_.figures().awaited_batches;
  const std::uint32_t producers = jobs_.open_count();
  const bool end_unread = jobs_.end_is_unread();
  if (batches == 0 && producers == 0 && readers == 0 && !end_unread && !unsent) return {};
  const auto in_process = [](std::uint64_t pid) {
    return pid == 0 ? std::string() : " (process " + std::to_string(pid) + ")";
  };
  return std::to_string(batches) + " batches unread" +
         (log_.readers_needed() > 1 ? " by " + std::to_string(log_.readers_needed()) + " readers" : "") +
         ", " + std::to_string(producers) + " producers open" + in_process(writer_pid) + ", " +
         std::to_string(readers) + " readers not at the end" + in_process(reader_pid) +
         (end_unread ? ", the end of the stream not yet seen by a reader" : "") +
         (unsent ? ", messages not yet taken by a client" : "");
}

// What `lwmq top` shows.
void Stream::note_figures() noexcept {
  std::uint64_t stalled = 0, stalled_pid = 0;
  for (const auto& c : clients_) {
    if (c->reader && c->reader->stalled) ++stalled, stalled_pid = c->peer.pid;
  }
  const Log::Figures& figures = log_.figures();
  stats::set(entry_->readers, readers_.open_count());
  stats::set(entry_->readers_stalled, stalled);
  stats::set(entry_->stalled_pid, stalled_pid);
  stats::set(entry_->readers_expelled, watch_.expelled_count());
  stats::set(entry_->readers_lost, readers_.lost_count());
  stats::set(entry_->writers, jobs_.open_count());
  stats::set(entry_->partitions, log_.size());
  stats::set(entry_->batches, figures.arrived);
  stats::set(entry_->rows, figures.rows);
  stats::set(entry_->bytes, figures.bytes);
  stats::set(entry_->unread_batches, figures.unread_batches);
  stats::set(entry_->kept_batches, figures.kept_batches);
  stats::set(entry_->kept_bytes, figures.kept_bytes);
}

wire::State Stream::state() const {
  wire::State s;
  const lwmq_identity& self = os::identity();
  s.retain = log_.retain();
  s.readers = log_.readers_needed();
  s.producers_open = jobs_.open_count();
  s.netns = self.netns;
  s.pid = self.pid;
  s.uid = geteuid();
  s.generation = id_.generation;
  s.schema = log_.schema();
  s.host = self.host;
  s.boot_id = self.boot_id;
  s.instance.assign(reinterpret_cast<const char*>(self.instance), sizeof self.instance);
  s.readers_open = readers_.open_count();
  s.readers_expelled = static_cast<std::uint32_t>(watch_.expelled_count());
  for (const auto& c : clients_) {
    if (c->reader && c->reader->stalled) ++s.readers_stalled, s.stalled_pid = c->peer.pid;
  }
  bool unread = jobs_.end_is_unread() || log_.retain() == LWMQ_RETAIN_ALL;
  for (std::uint32_t p = 0; p < log_.size(); ++p) {
    const PartitionLog& log = log_[p];
    s.partitions.push_back(
        {log.first_seq(), log.unacked_seq(), log.next_seq(), log.unacked_rows(), log.unacked_bytes()});
    unread = unread || log.unacked_seq() < log.next_seq();
  }
  s.state = !log_.is_declared()    ? LWMQ_STREAM_UNDECLARED
            : !jobs_.have_ended(1) ? LWMQ_STREAM_OPEN
            : unread               ? LWMQ_STREAM_ENDED
                                   : LWMQ_STREAM_CONSUMED;
  return s;
}

}  // namespace lwmq::stream
