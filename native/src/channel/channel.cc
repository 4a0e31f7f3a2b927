// Making, opening and posting.
#include "channel/channel.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/limits.h"
#include "channel/address_options.h"
#include "channel/service.h"
#include "codec/encoder.h"
#include "os/clock.h"
#include "os/identity.h"
#include "os/membarrier.h"
#include "tli/filtered.h"
#include "tli/registry.h"

namespace lwmq::channel {

namespace {

constexpr std::uint64_t kDefaultBufferBytes = 64 * kKiB;
constexpr std::uint32_t kDefaultBuffers = 8;
constexpr std::uint32_t kDefaultRetryMs = 100;
// What one post ships at most of what others have left behind, before it hands the rest to the service
// thread.
constexpr std::uint64_t kPumpBytes = 64 * kKiB;
constexpr std::uint32_t kPumpRounds = 4;

template <typename T>
T first_said(T one, T two, T otherwise) noexcept {
  return one != 0 ? one : two != 0 ? two : otherwise;
}

// The caller's structure may be shorter or longer than ours.
lwmq_channel_options read_options(const lwmq_channel_options* options) noexcept {
  lwmq_channel_options known{};
  if (options != nullptr) std::memcpy(&known, options, std::min<std::uint64_t>(options->size, sizeof known));
  return known;
}

}  // namespace

Channel::Channel(const char* address, const lwmq_tli_provider* provider) noexcept
    : address_(address),
      provider_(provider),
      membarrier_(os::membarrier_available()),
      receiver_(provider),
      entry_(stats::open_entry(stats::EntryKind::kChannel, address)) {}

Channel::~Channel() = default;

Status Channel::create(const char* address, const lwmq_channel_options* options, Channel** out_channel) {
  const lwmq_tli_provider* provider = nullptr;
  Status status = tli::find(address, &provider);
  if (status != LWMQ_OK) return status;
  AddressOptions said;
  status = parse_address_options(address, &said);
  if (status != LWMQ_OK) return status;
  const std::string bare = tli::without_options(address);
  lwmq_limits limits{};
  limits.size = sizeof limits;
  status = provider->limits(bare.c_str(), &limits);
  if (status != LWMQ_OK) return status;

  const lwmq_channel_options given = read_options(options);
  lwmq_tli_options wanted{};
  wanted.size = sizeof wanted;
  wanted.buffer_bytes = first_said(given.buffer_bytes, said.buffer_bytes,
                                   std::min(kDefaultBufferBytes, limits.buffer_bytes_max));
  wanted.buffers_send = first_said(given.buffers_send, said.buffers_send, kDefaultBuffers);
  wanted.buffers_receive =
      first_said(given.buffers_receive, said.buffers_receive, 0u);  // 0: what the peer makes
  wanted.purpose = given.raw != 0 ? LWMQ_TLI_FOR_RAW : LWMQ_TLI_FOR_MESSAGES;
  if (wanted.buffer_bytes < kBufferBytesMin || wanted.buffer_bytes > limits.buffer_bytes_max) {
    return fail(LWMQ_E_INVALID, "buffers of %" PRIu64 " bytes; %" PRIu64 " to %" PRIu64 " are possible (%s)",
                wanted.buffer_bytes, kBufferBytesMin, limits.buffer_bytes_max, bare.c_str());
  }
  const std::uint64_t buffers = std::uint64_t{wanted.buffers_send} + wanted.buffers_receive;
  if (buffers > limits.buffers_max) {
    return fail(LWMQ_E_INVALID,
                "%" PRIu64 " buffers (%u to send and %u to receive); %" PRIu64 " are possible (%s)", buffers,
                wanted.buffers_send, wanted.buffers_receive, limits.buffers_max, bare.c_str());
  }

  std::unique_ptr<lwmq_tli_filters> filters;
  status = tli::make_filters(bare.c_str(), &filters);
  if (status != LWMQ_OK) return status;
  auto* made = new (std::nothrow) Channel(bare.c_str(), provider);
  if (made == nullptr) return fail(LWMQ_E_NO_MEMORY, "no memory for a channel (%s)", bare.c_str());
  made->tli_options_ = wanted;
  made->filters_ = std::move(filters);
  made->tli_options_.filters = made->filters_.get();
  made->retry_ms_ = first_said(given.retry_ms, said.retry_ms, kDefaultRetryMs);
  made->raw_ = given.raw != 0;
  *out_channel = made;
  return LWMQ_OK;
}

void Channel::destroy(Channel* channel) {
  if (os::forked()) return;  // its threads and its memory are the parent's: the child forgets it
  channel->close(0);
  delete channel;
}

Status Channel::add_send_queue(std::uint32_t kind, std::uint32_t priority, ChannelQueue** out_queue) {
  if (raw_)
    return fail(LWMQ_E_INVALID, "a raw channel has no queues: get and send buffers (%s)", address_.c_str());
  if (phase_.load() >= Phase::kClosing || os::forked()) return refuse_phase();
  if (kind != LWMQ_QUEUE_MONO_UNBOUNDED)
    return fail(LWMQ_E_INVALID, "there is no kind %u of send queue", kind);
  if (priority == 0) priority = LWMQ_PRIORITY_NORMAL;
  if (priority > LWMQ_PRIORITY_IDLE) {
    return fail(LWMQ_E_INVALID, "priority %u; there are 1 (time critical) to 7 (idle)", priority);
  }
  auto queue = std::make_unique<ChannelQueue>(this, kind, priority);
  queue->entry =
      stats::open_entry(stats::EntryKind::kQueue, address_.c_str(), std::to_string(queues_.size()).c_str());
  stats::set(queue->entry->priority, priority);
  *out_queue = queue.get();
  take_pump();
  scheduler_.add(queue.get());
  queues_.push_back(std::move(queue));
  pump_and_release();
  return LWMQ_OK;
}

Status Channel::open(std::int32_t role) {
  if (os::forked() || phase_.load() >= Phase::kClosing) return refuse_phase();
  if (phase_.load() == Phase::kOpen)
    return fail(LWMQ_E_INVALID, "the channel is open already (%s)", address_.c_str());
  if (role < LWMQ_ROLE_AUTO || role > LWMQ_ROLE_CLIENT)
    return fail(LWMQ_E_INVALID, "there is no role %d", role);
  role_ = role;
  start_services();
  Status status = ServiceThread::attending().add(&attend_);
  if (status != LWMQ_OK) return status;
  status = ServiceThread::connecting().add(&connect_);
  attending_ = true;
  if (status == LWMQ_OK && role == LWMQ_ROLE_SERVER) status = listen();
  if (status != LWMQ_OK) {
    ServiceThread::attending().remove(&attend_);
    ServiceThread::connecting().remove(&connect_);
    attending_ = false;
    return status;
  }
  phase_.store(Phase::kOpen);
  // Whether somebody listens decides what an automatic role becomes: found out now, so that it is settled
  // when we return.
  if (role == LWMQ_ROLE_AUTO) connect(os::now_ns());
  ServiceThread::attending().request(&attend_);
  return LWMQ_OK;
}

Status Channel::filters(tli::Filters** out_filters) const {
  if (phase_.load() == Phase::kClosed || os::forked()) return refuse_phase();
  if (filters_ == nullptr)
    return fail(LWMQ_E_UNSUPPORTED,
                "this channel was made without filters: its address may begin with filters+ (%s)",
                address_.c_str());
  *out_filters = filters_->filters.get();
  return LWMQ_OK;
}

// ---- Posting ----------------------------------------------------------------------------------------

Status Channel::refuse_phase() const noexcept {
  if (os::forked())
    return fail(LWMQ_E_CLOSED, "forked: this channel belongs to the parent process (%s)", address_.c_str());
  if (phase_.load() == Phase::kCreated)
    return fail(LWMQ_E_INVALID, "the channel is not open yet (%s)", address_.c_str());
  return fail(LWMQ_E_CLOSED, "the channel was closed (%s)", address_.c_str());
}

Status Channel::refuse(bool raw) const noexcept {
  if (raw == raw_ || phase_.load() != Phase::kOpen || os::forked()) return refuse_phase();
  return fail(LWMQ_E_INVALID,
              raw_ ? "a raw channel has buffers, not messages (%s)" : "not a raw channel (%s)",
              address_.c_str());
}

Status Channel::too_big(std::uint64_t encoded_bytes, std::uint64_t payload_bytes) const noexcept {
  if (encoded_bytes == payload_bytes) {
    return fail(LWMQ_E_TOO_BIG, "message of %" PRIu64 " bytes does not fit a buffer of %" PRIu64 " (%s)",
                payload_bytes, tli_options_.buffer_bytes, address_.c_str());
  }
  return fail(LWMQ_E_TOO_BIG,
              "message of %" PRIu64 " bytes (%" PRIu64
              " with the headers of its frames) does not fit a buffer of %" PRIu64 " (%s)",
              payload_bytes, encoded_bytes, tli_options_.buffer_bytes, address_.c_str());
}

Status Channel::post(ChannelQueue* queue, Message* message) noexcept {
  if (phase_.load(std::memory_order_relaxed) != Phase::kOpen || os::forked()) [[unlikely]] {
    if (phase_.load() != Phase::kCreated || os::forked())
      return refuse_phase();  // before open, messages may be queued
  }
  const codec::Encoding encoding = codec::measure(*message);
  if (encoding.bytes > tli_options_.buffer_bytes) [[unlikely]] {
    std::uint64_t payload = 0;
    for (std::uint32_t i = 0; i < message->frame_count(); ++i) payload += message->frames()[i].bytes;
    return too_big(encoding.bytes, payload);
  }
  if (pump_.try_take()) {
    if (queue->empty() && sender_.put(*message) == Sent::kAll) [[likely]] {
      queue->count_posted();
      release_pump();
      note_activity();
      Message::destroy(message);
      return LWMQ_OK;
    }
    if (!queue->push(message)) {
      release_pump();
      return fail(LWMQ_E_NO_MEMORY, "no memory to queue a message (%s)", address_.c_str());
    }
    queue->count_posted();
    pump_and_release();
    return LWMQ_OK;
  }
  return enqueue(queue, message);
}

Status Channel::post_bytes(ChannelQueue* queue, const void* data, std::uint64_t bytes) noexcept {
  if (bytes > tli_options_.buffer_bytes) [[unlikely]]
    return too_big(bytes, bytes);
  if (phase_.load(std::memory_order_relaxed) == Phase::kOpen && !os::forked() && pump_.try_take())
      [[likely]] {
    if (queue->empty() && sender_.put(data, bytes) == Sent::kAll) [[likely]] {
      queue->count_posted();
      release_pump();
      note_activity();
      return LWMQ_OK;
    }
    release_pump();
  }
  Message* message = Message::copy_of(data, bytes);
  if (message == nullptr)
    return fail(LWMQ_E_NO_MEMORY, "no memory for a message of %" PRIu64 " bytes", bytes);
  const Status status = post(queue, message);
  if (status != LWMQ_OK) Message::destroy(message);
  return status;
}

Status Channel::enqueue(ChannelQueue* queue, Message* message) noexcept {
  if (!queue->push(message))
    return fail(LWMQ_E_NO_MEMORY, "no memory to queue a message (%s)", address_.c_str());
  queue->count_posted();
  kick();
  return LWMQ_OK;
}

// A message was left behind: whoever holds the pump takes it, or we do.
void Channel::kick() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // sync: left-behind
  if (pump_.is_free() && pump_.try_take()) pump_and_release();
}

// ---- Pumping ----------------------------------------------------------------------------------------

// With the pump in hand: ships what the queues hold, up to a limit, and gives the pump away.
void Channel::pump_and_release() noexcept {
  for (std::uint32_t round = 0; round < kPumpRounds; ++round) {
    {
      Completions completions;
      const Sent sent = sender_.pump(scheduler_, kPumpBytes, completions);
      if (sent == Sent::kSome || sent == Sent::kNoRoom) break;
      pump_.release();  // also where nobody is connected: what is queued goes out when a peer is attached
      if (sent == Sent::kNoPeer) return note_queued();
      if (sent == Sent::kPeerGone) return note_peer_gone();
    }
    // What another thread pushed while it saw the pump taken.
    std::atomic_thread_fence(std::memory_order_seq_cst);  // sync: left-behind
    if (!scheduler_.has_messages() || !pump_.try_take()) return note_activity();
  }
  pump_.hand_over();
  ServiceThread::attending().request(&attend_);
}

// With the pump in hand, as the poster of the one queue: nobody else can have pushed, so there is nothing
// to look for.
void Channel::release_pump() noexcept {
  if (scheduler_.has_several_queues()) [[unlikely]]
    return release_and_look();
  pump_.release();
}

// With the pump in hand, as anybody.
void Channel::release_and_look() noexcept {
  pump_.release();
  std::atomic_thread_fence(std::memory_order_seq_cst);  // sync: left-behind
  if (scheduler_.has_messages() && pump_.try_take()) pump_and_release();
}

// While nobody is connected the service threads sleep.
void Channel::note_queued() noexcept {
  stats::set(entry_->messages_queued, scheduler_.message_count());
  note_queues();
}

// Any thread: a queue is never taken away.
void Channel::note_queues() noexcept {
  scheduler_.each([](const SendQueue& queue) {
    stats::Entry& entry = *static_cast<const ChannelQueue&>(queue).entry;
    stats::set(entry.messages_posted, queue.posted());
    stats::set(entry.messages_queued, queue.size());
    stats::set(entry.messages_sent, queue.posted() - std::min(queue.posted(), queue.size()));
  });
}

void Channel::take_pump() noexcept {
  while (!pump_.try_take() && !pump_.adopt()) sched_yield();
}

void Channel::begin_activity() noexcept {
  active_.store(true, std::memory_order_relaxed);
  ServiceThread::attending().request(&attend_);
}

void Channel::note_peer_gone() noexcept {
  if (peer_gone_.exchange(true, std::memory_order_acq_rel)) return;
  ServiceThread::attending().request(&attend_);
}

}  // namespace lwmq::channel
