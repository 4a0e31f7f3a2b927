// The endpoint's thread: accepting, dispatching, sleeping. endpoint_write.cc has producers, endpoint_read.cc
// readers.
#include "stream/endpoint.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "os/clock.h"
#include "os/futex.h"
#include "os/identity.h"
#include "os/process_name.h"
#include "os/spin.h"
#include "os/thread.h"
#include "service/provider_services.h"
#include "stats/process_counters.h"
#include "stream/conversation.h"
#include "tli/registry.h"

namespace lwmq::stream {
namespace {

// Rounds without news before the thread sleeps. Few: on two cores it takes time from its own clients.
constexpr std::uint32_t kIdleRounds = 64;
constexpr std::uint32_t kRoundsPerAccept =
    16;  // looking for clients costs system calls, looking at links none
constexpr std::uint32_t kBusyRoundsPerAccept = 256;
constexpr int kLookSoonMs = 5;
constexpr int kLookLateMs = 60'000;
constexpr std::uint32_t kRoundsBeforeAnswer = 64;
constexpr std::int64_t kNapNs = 200'000;          // for how long a client's pumping counts as serving
constexpr std::uint32_t kMessagesPerRound = 256;  // of one client, so that none keeps the others waiting

}  // namespace

bool Pool::is_behind() const noexcept {
  return conversation != nullptr && (!introductions.empty() || conversation->link.has_backlog());
}

Pool::~Pool() {
  for (auto& [page, record] : introductions) provider->window_release(page);
  for (auto* window : windows) provider->window_release(window);
  if (ledger_window != nullptr) provider->window_release(ledger_window);
}

Status Endpoint::start(const lwmq_tli_provider* provider, const std::string& address,
                       std::shared_ptr<Endpoint>* out_endpoint) {
  if (provider->window_create == nullptr) {
    return fail(LWMQ_E_UNSUPPORTED, "%s: streams need a transport that shares windows; %s does not",
                address.c_str(), provider->name);
  }
  Status status = service::start_services();
  if (status != LWMQ_OK) return status;
  const lwmq_tli_options options = control_options();
  lwmq_tli_listener* listener = nullptr;
  status = tli::listen(*provider, address.c_str(), options, &listener);
  if (status != LWMQ_OK) return status;
  const int stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (stop_fd < 0) {
    const int error = errno;
    provider->listener_close(listener);
    return fail_call(LWMQ_E_SYSTEM, error, "%s: eventfd", address.c_str());
  }
  std::shared_ptr<Endpoint> endpoint(new Endpoint(provider, address, listener, stop_fd));
  const Status started = os::start_thread(
      "lwmq-endpoint", [](void* self) { static_cast<Endpoint*>(self)->serve(); }, endpoint.get(),
      &endpoint->thread_);
  if (started != LWMQ_OK) {
    provider->listener_close(listener);
    return started;
  }
  endpoint->has_thread_ = true;
  *out_endpoint = std::move(endpoint);
  return LWMQ_OK;
}

Endpoint::Endpoint(const lwmq_tli_provider* provider, std::string address, lwmq_tli_listener* listener,
                   int stop_fd)
    : provider_(provider),
      address_(std::move(address)),
      listener_(listener),
      stop_fd_(stop_fd),
      entry_(stats::open_entry(stats::EntryKind::kEndpoint, address_.c_str())) {
  generation_.resize(16);
  os::random_bytes(generation_.data(), generation_.size());
}

Endpoint::~Endpoint() {
  stop();
  ::close(stop_fd_);
}

void Endpoint::stop() {
  if (!std::exchange(has_thread_, false) || os::forked()) return;  // the thread stayed with the parent
  stopping_.store(true, std::memory_order_relaxed);                // ordered by the write to the descriptor
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(stop_fd_, &one, sizeof one);
  hand_over();
  pthread_join(thread_, nullptr);
}

Status Endpoint::drain(std::uint32_t timeout_ms) {
  {
    // What has come in so far counts, also where there is no time to wait.
    const std::lock_guard lock(pump_mutex_);
    for (std::uint32_t i = 0; i < kRoundsBeforeAnswer && poll_once(true); ++i) {
    }
    note_idle_state();
  }
  {
    std::unique_lock lock(idle_mutex_);
    const auto done = [this] { return idle_; };
    if (timeout_ms == LWMQ_FOREVER) {
      idle_changed_.wait(lock, done);
      return LWMQ_OK;
    }
    if (idle_changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), done)) return LWMQ_OK;
  }
  const std::lock_guard lock(pump_mutex_);
  const Unfinished left = unfinished();
  return left.is_nothing() ? LWMQ_OK
                           : fail(LWMQ_E_TIMED_OUT, "%s: %s", address_.c_str(), left.text().c_str());
}

// ---- The thread -------------------------------------------------------------------------------------

void Endpoint::serve() {
  std::uint32_t idle_rounds = 0, busy_rounds = 0;
  std::unique_lock lock(pump_mutex_);
  while (!stopping_.load(std::memory_order_relaxed)) {
    // Also where there is always something to do, somebody new must get in.
    if (poll_once(idle_rounds % kRoundsPerAccept == 0 || busy_rounds >= kBusyRoundsPerAccept)) {
      busy_rounds = busy_rounds >= kBusyRoundsPerAccept ? 0 : busy_rounds + 1;
      idle_rounds = 1;
    } else if (++idle_rounds >= kIdleRounds) {
      idle_rounds = 0;
      if (pumped_ != pumped_seen_) {
        pumped_seen_ = pumped_;
        lock.unlock();
        nap();
        lock.lock();
        continue;
      }
      note_idle_state();
      arm_and_sleep(lock);
    }
    lock.unlock();  // clients of this process get their turn
    os::pause();
    lock.lock();
  }
  conversations_.clear();  // closes every link in order
  provider_->listener_close(listener_);
}

void Endpoint::pump() {
  const std::unique_lock lock(pump_mutex_, std::try_to_lock);
  if (!lock || stopping_.load(std::memory_order_relaxed)) return;
  ++pumped_;
  if (disarm()) {
    // Our peers ring for nobody now: the own thread must know that it is to look again.
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(stop_fd_, &one, sizeof one);
  }
  poll_once(false);
}

void Endpoint::hand_over() {
  nap_word_.fetch_add(1, std::memory_order_release);
  if (napping_.load(std::memory_order_seq_cst)) os::futex_wake_all(nap_word_);
}

void Endpoint::nap() {
  const std::uint32_t seen = nap_word_.load(std::memory_order_acquire);
  napping_.store(true, std::memory_order_seq_cst);
  os::futex_wait(nap_word_, seen, kNapNs);
  napping_.store(false, std::memory_order_relaxed);
}

bool Endpoint::poll_once(bool look_for_clients) {
  bool busy = false;
  while (look_for_clients) {
    lwmq_tli_transport* transport = nullptr;
    if (provider_->accept(listener_, &transport) != LWMQ_OK) break;
    busy = true;
    auto conversation = std::make_unique<Conversation>(provider_, transport);
    provider_->peer(transport, &conversation->peer);
    conversations_.push_back(std::move(conversation));
  }
  // By index: handling a message may not add conversations, but keeps references to them.
  for (std::size_t i = 0; i < conversations_.size(); ++i) busy |= serve_conversation(*conversations_[i]);
  if (busy) {
    note_busy();
    forget_dead();
    note_figures();
  }
  if (watch_at_ns_ != 0 && os::coarse_now_ns() >= watch_at_ns_) {
    watch_readers();
    note_figures();
  }
  return busy;
}

bool Endpoint::serve_conversation(Conversation& c) {
  if (c.over) return true;
  bool busy = false;
  if (c.link.has_backlog()) busy = c.link.flush();
  if (c.pool && !(c.pool->introductions.empty() && c.pool->held_drops.empty())) introduce(c);
  if (c.reader && c.reader->behind) advance(c);
  std::string bytes;
  for (std::uint32_t i = 0; i < kMessagesPerRound; ++i) {
    wire::StreamKind kind{};
    Status status = c.link.receive(&kind, &bytes);
    if (status == LWMQ_E_EMPTY) return busy;
    busy = true;
    if (status == LWMQ_OK) status = handle(c, kind, bytes);
    if (status != LWMQ_OK) {
      leave(c, status);
      return true;
    }
  }
  return busy;
}

// Where clients came or went in this round, what they held is given up.
void Endpoint::forget_dead() {
  const auto dead = [](const std::unique_ptr<Conversation>& c) { return c->over; };
  if (std::none_of(conversations_.begin(), conversations_.end(), dead)) return;
  std::erase_if(conversations_, dead);
  for (auto& c : conversations_) {
    if (c->pool && c->pool->sharers > 1) c->pool->sharers = count_sharers(c->pool->number);
  }
  sweep();
  advance_all();
  report_drained();
}

void Endpoint::arm_and_sleep(std::unique_lock<std::mutex>& lock) {
  bool news = false;
  bool look_soon = false;
  armed_ = true;
  for (auto& c : conversations_) {
    const std::int32_t armed = provider_->arm(c->link.transport(), LWMQ_TLI_WAIT_EXTENT | LWMQ_TLI_WAIT_ROOM);
    news |= armed > 0;
    look_soon |= armed < 0;
  }
  // Nobody rings when a writer takes the news of readers; one that waits for room must not wait for that.
  for (auto& c : conversations_) {
    look_soon |= c->pool && c->pool->wants_room && !c->pool->introductions.empty();
    look_soon |= c->reader && c->reader->behind;
  }
  int sleep_ms = look_soon ? kLookSoonMs : -1;
  if (watch_at_ns_ != 0 && !look_soon) {
    const std::int64_t left_ns = std::max<std::int64_t>(0, watch_at_ns_ - os::coarse_now_ns());
    sleep_ms = static_cast<int>(std::min<std::int64_t>(left_ns / 1'000'000 + 1, kLookLateMs));
  }
  if (!news) {
    lock.unlock();
    pollfd descriptors[2] = {{provider_->listener_fd(listener_), POLLIN, 0}, {stop_fd_, POLLIN, 0}};
    ::poll(descriptors, 2, sleep_ms);  // whatever ends it, the next round looks at everything
    std::uint64_t count = 0;
    [[maybe_unused]] const auto read = ::read(stop_fd_, &count, sizeof count);  // empty: nothing to drain
    lock.lock();
  }
  disarm();
}

bool Endpoint::disarm() {
  if (!armed_) return false;
  armed_ = false;
  for (auto& c : conversations_) provider_->disarm(c->link.transport());
  return true;
}

// Something has come in: what drain() was told last is old.
void Endpoint::note_busy() {
  if (busy_noted_) return;
  busy_noted_ = true;
  const std::lock_guard lock(idle_mutex_);
  idle_ = false;
}

// What `lwmq top` shows.
void Endpoint::note_figures() noexcept {
  std::uint64_t stalled = 0, stalled_pid = 0;
  for (const auto& c : conversations_) {
    if (c->reader && c->reader->stalled) ++stalled, stalled_pid = c->peer.pid;
  }
  stats::set(entry_->readers, readers_open());
  stats::set(entry_->readers_stalled, stalled);
  stats::set(entry_->stalled_pid, stalled_pid);
  stats::set(entry_->readers_expelled, readers_expelled_);
  stats::set(entry_->writers, producers_open_);
  stats::set(entry_->partitions, logs_.size());
  stats::set(entry_->batches, arrivals_);
  stats::set(entry_->rows, rows_);
  stats::set(entry_->bytes, bytes_);
  stats::set(entry_->unread_batches, unread_batches_);
  stats::set(entry_->kept_batches, kept_batches_);
  stats::set(entry_->kept_bytes, kept_bytes_);
}

// Tells drain() how things stand.
void Endpoint::note_idle_state() {
  busy_noted_ = false;
  const std::lock_guard lock(idle_mutex_);
  idle_ = unfinished().is_nothing();
  idle_changed_.notify_all();
}

// What keeps the endpoint from being idle.
Endpoint::Unfinished Endpoint::unfinished() const {
  Unfinished left{.batches = awaited_batches_,
                  .readers_needed = readers_needed_,
                  .producers = producers_open_,
                  .end_unread = end_is_news()};
  for (const auto& c : conversations_) {
    if (c->reader && !c->reader->done && c->reader->options.follow == 0 && !is_late(*c->reader))
      ++left.readers, left.reader_pid = c->peer.pid;
    if ((c->writer && !c->writer->closing) || c->job) left.writer_pid = c->peer.pid;
    left.unsent = left.unsent || c->link.has_backlog();
  }
  return left;
}

bool Endpoint::Unfinished::is_nothing() const noexcept {
  return batches == 0 && producers == 0 && readers == 0 && !end_unread && !unsent;
}

std::string Endpoint::Unfinished::text() const {
  const auto in_process = [](std::uint64_t pid) {
    return pid == 0 ? std::string() : " (process " + std::to_string(pid) + ")";
  };
  return std::to_string(batches) + " batches unread" +
         (readers_needed > 1 ? " by " + std::to_string(readers_needed) + " readers" : "") + ", " +
         std::to_string(producers) + " producers open" + in_process(writer_pid) + ", " +
         std::to_string(readers) + " readers not at the end" + in_process(reader_pid) +
         (end_unread ? ", the end of the stream not yet seen by a reader" : "") +
         (unsent ? ", messages not yet taken by a client" : "");
}

// ---- Messages ---------------------------------------------------------------------------------------

Status Endpoint::handle(Conversation& c, wire::StreamKind kind, const std::string& bytes) {
  using wire::StreamKind;
  switch (kind) {
    case StreamKind::kOpenWriter:
      return open_writer(c, bytes);
    case StreamKind::kOpenJob:
      return open_job(c, bytes);
    case StreamKind::kOpenReader:
      return open_reader(c, bytes);
    case StreamKind::kWindow:
      return add_window(c, bytes);
    case StreamKind::kPublish:
      return publish(c, bytes);
    case StreamKind::kConsumed:
      return consumed(c, bytes);
    case StreamKind::kLease:
      return lease(c, bytes);
    case StreamKind::kWantRoom:
      return want_room(c, bytes);
    case StreamKind::kCloseWriter:
      return close_writer(c);
    case StreamKind::kAbortWriter:
      return abort_writer(c, bytes);
    case StreamKind::kCommitTask:
      return commit_task(c);
    case StreamKind::kCommitJob:
      return commit_job(c, bytes);
    case StreamKind::kAbortJob: {
      wire::Text letter;
      if (!wire::decode(bytes, &letter)) break;
      return close_job(c, true, letter.text);
    }
    case StreamKind::kCloseJob:
      return close_job(c, false, {});
    case StreamKind::kAbandonReader:
      if (!c.reader) break;
      c.reader->abandoned = true;
      return LWMQ_E_CLOSED;
    case StreamKind::kDescribe: {
      wire::Describe letter;
      if (!wire::decode(bytes, &letter)) break;
      c.wants_description = letter.wait_declared != 0 && !declared_;
      return c.wants_description ? LWMQ_OK : c.link.send_letter(StreamKind::kState, state());
    }
    case StreamKind::kSettle:
      return settle(c, bytes);
    case StreamKind::kPing:
      // Whoever has not taken what was sent before hears from us in any case.
      return c.link.has_backlog() ? LWMQ_OK : c.link.send(StreamKind::kPong, nullptr, 0);
    case StreamKind::kExpelled:
      if (!c.reader || !c.reader->expelled) break;
      end_quarantine(*c.reader);
      return LWMQ_OK;
    default:
      break;
  }
  return fail(LWMQ_E_CORRUPT, "message of kind %u and %zu bytes is not one that a client sends",
              static_cast<unsigned>(kind), bytes.size());
}

// The client has gone, in order or not, or broke the protocol; or we lack what it takes to go on with it.
void Endpoint::leave(Conversation& c, Status why) {
  c.over = true;
  if (is_failure(why) && why != LWMQ_E_CLOSED && why != LWMQ_E_PEER_LOST) {
    wire::Text letter;
    letter.status = why;
    letter.text =
        (address_ + ": the endpoint ended this conversation: " + last_error()).substr(0, kReasonBytesMax);
    c.link.send_letter(wire::StreamKind::kFailed, letter);  // as far as it goes: the link closes behind it
  }
  const bool died = why == LWMQ_E_PEER_LOST;
  const std::string who = c.who + " on host " + os::identity().host + ", ";
  if (died) stats::add(stats::process().peers_lost, 1);
  if (c.writer) {
    drop_staged(c.writer->staged);
    if (c.writer->job.empty() && c.writer->producer->open) {
      abort_producer(c.writer->producer, LWMQ_E_PEER_LOST,
                     "the producer, " + who +
                         (died                   ? os::process_end(c.peer.pid)
                          : why == LWMQ_E_CLOSED ? "left"
                                                 : "was shut out, as it broke the protocol,") +
                         " without ending the stream");
    }
  }
  if (c.job && c.job->job->producer->open) {
    close_job(c, true,
              who + "the driver of job " + c.job->id + ", left before the job's end" +
                  (died ? ": it " + os::process_end(c.peer.pid) : ""));
  }
  if (c.pool) c.pool->conversation = nullptr;
  if (c.reader) {
    for (const auto& [partition, seq] : c.reader->handed) {
      if (Entry* entry = logs_[partition].find(seq)) --entry->handed_out;
    }
    if (why != LWMQ_E_CLOSED || c.reader->abandoned)
      tell_of_lost_reader(c, who, died ? os::process_end(c.peer.pid) : "left before it had finished");
    end_quarantine(*c.reader);
    c.reader.reset();
  }
}

// To the writers whose stream it read.
void Endpoint::tell_of_lost_reader(Conversation& c, const std::string& who, const std::string& end) {
  const ReaderSession& reader = *c.reader;
  if (reader.expelled || (reader.done && reader.handed.empty())) return;  // it had nothing more to read
  std::string place = "had not been told the schema";
  if (!reader.ranges.empty()) {
    const auto [partition, seq] = reader.handed.empty()
                                      ? std::make_pair(reader.ranges[0].partition, reader.ranges[0].cursor)
                                      : reader.handed.front();
    place = "had come to batch " + std::to_string(seq) + " of partition " + std::to_string(partition);
  }
  const std::size_t held = reader.handed.size();
  const std::string text =
      "reader " + reader.options.name + ", " + who + end + "; it " + place + ", and the " +
      (held == 1 ? "batch in its hands goes" : std::to_string(held) + " batches in its hands go") +
      " to the next reader";
  const std::string loss = forsake(c, "reader " + reader.options.name + ", " + who + end);
  for (auto& other : conversations_) {
    if (!other->writer || other->over) continue;
    const bool is_hit = !loss.empty() && !other->writer->producer->loss.empty();
    wire::Text letter;
    letter.status = is_hit ? LWMQ_E_DATA_LOSS : LWMQ_OK;
    letter.text = (is_hit ? other->writer->producer->loss : text).substr(0, kReasonBytesMax);
    other->link.send_letter(wire::StreamKind::kReaderLost, letter);
  }
}

// What a reader without a name has taken and not finished is not acknowledged by its end. What is still kept
// goes to the next reader. What is gone is a loss of its producers, which they and later readers hear of. A
// producer that has ended and was read to its end is finished. Returns the loss as a text; empty: none.
std::string Endpoint::forsake(Conversation& c, const std::string& who) {
  ReaderSession& reader = *c.reader;
  auto& taken = reader.taken;
  std::erase_if(taken, [](const auto& t) { return !t.producer->open && t.producer->unconsumed == 0; });
  if (taken.empty()) return {};
  for (auto& log : logs_) {
    log.for_each([&](std::uint64_t, Entry& entry) {
      const auto found = std::ranges::find(taken, entry.producer, &ReaderSession::Taken::producer);
      if (found == taken.end() || !entry.forget(reader.name)) return true;
      --found->batches, found->rows -= entry.block.rows;
      if (entry.consumed() == 0) ++unread_batches_;
      if (entry.consumed() + 1 == readers_needed_) ++awaited_batches_, ++entry.producer->unconsumed;
      return true;
    });
  }
  std::string text;
  for (const auto& [producer, batches, rows] : taken) {
    if (batches == 0) continue;
    text = who + ". With it went " + std::to_string(batches) + " batches (" + std::to_string(rows) +
           " rows) of " + producer->name +
           ", which it had read, and nobody else can. Ways out: retain=\"all\", or a name for the reader, "
           "under which the next one goes on where it was";
    producer->loss = text;
    if (!producer->open) aborts_.push_back({arrivals_, LWMQ_E_DATA_LOSS, text});
  }
  return text;
}

std::uint32_t Endpoint::readers_open() const {
  return static_cast<std::uint32_t>(std::count_if(
      conversations_.begin(), conversations_.end(),
      [](const std::unique_ptr<Conversation>& c) { return c->reader && !c->reader->expelled; }));
}

wire::State Endpoint::state() const {
  wire::State s;
  const lwmq_identity& self = os::identity();
  s.retain = retain_;
  s.readers = readers_needed_;
  s.producers_open = producers_open_;
  s.netns = self.netns;
  s.pid = self.pid;
  s.uid = geteuid();
  s.generation = generation_;
  s.schema = schema_;
  s.host = self.host;
  s.boot_id = self.boot_id;
  s.instance.assign(reinterpret_cast<const char*>(self.instance), sizeof self.instance);
  s.readers_open = readers_open();
  s.readers_expelled = static_cast<std::uint32_t>(readers_expelled_);
  for (const auto& c : conversations_) {
    if (c->reader && c->reader->stalled) ++s.readers_stalled, s.stalled_pid = c->peer.pid;
  }
  const std::uint32_t acks = retain_ == LWMQ_RETAIN_ALL ? UINT32_MAX : readers_needed_;
  bool unread = end_is_news() || retain_ == LWMQ_RETAIN_ALL;
  for (auto& log : const_cast<Endpoint*>(this)->logs_) {
    wire::PartitionField field;
    field.first_seq = log.first_seq();
    field.unacked_seq = log.lowest_unacked(std::nullopt, acks);
    field.next_seq = log.next_seq();
    log.for_each([&](std::uint64_t seq, const Entry& entry) {
      if (seq >= field.unacked_seq) field.rows += entry.block.rows, field.bytes += entry.block.bytes;
      return true;
    });
    unread = unread || field.unacked_seq < field.next_seq;
    s.partitions.push_back(field);
  }
  s.state = !declared_      ? LWMQ_STREAM_UNDECLARED
            : !has_ended(1) ? LWMQ_STREAM_OPEN
            : unread        ? LWMQ_STREAM_ENDED
                            : LWMQ_STREAM_CONSUMED;
  return s;
}

// The stream has just been declared.
void Endpoint::answer_describes() {
  for (auto& c : conversations_) {
    if (!c->wants_description) continue;
    c->wants_description = false;
    c->link.send_letter(wire::StreamKind::kState, state());
  }
}

}  // namespace lwmq::stream
