// Making and opening; queues, their priorities and weights.
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
constexpr std::uint32_t kDefaultBuffers = 32;
constexpr std::uint32_t kDefaultRetryMs = 100;

template <typename T>
T first_said(T one, T two, T otherwise) noexcept {
  return one != 0 ? one : two != 0 ? two : otherwise;
}

std::uint32_t priority_said(const lwmq_send_queue_options& options) noexcept {
  return first_said<std::uint32_t>(options.priority, 0, LWMQ_PRIORITY_NORMAL);
}

// Of what a peer in this process has handed over and nobody landed.
void drop_extent(const void* data, std::uint64_t bytes, std::uint32_t kind) {
  Message* message = nullptr;
  if (kind != static_cast<std::uint32_t>(wire::ExtentKind::kPassed) || bytes != sizeof message) return;
  std::memcpy(&message, data, sizeof message);
  Message::destroy(message);
}

Status check_receive_queue(const lwmq_channel_options& given, const char* address) noexcept {
  const std::uint32_t kind = given.receive_queue;
  const bool bounded = kind == LWMQ_QUEUE_BOUNDED_DISCARD_OLDEST || kind == LWMQ_QUEUE_BOUNDED_DISCARD_NEWEST;
  if (!bounded && kind != LWMQ_QUEUE_MONO_UNBOUNDED && kind != LWMQ_QUEUE_MULTI_UNBOUNDED) {
    return fail(LWMQ_E_INVALID,
                "there is no kind %u of receive queue; there are mono and multi unbounded, bounded discard "
                "oldest and newest (%u, %u, %u, %u; %s)",
                kind, LWMQ_QUEUE_MONO_UNBOUNDED, LWMQ_QUEUE_MULTI_UNBOUNDED,
                LWMQ_QUEUE_BOUNDED_DISCARD_OLDEST, LWMQ_QUEUE_BOUNDED_DISCARD_NEWEST, address);
  }
  if (bounded != (given.receive_capacity != 0)) {
    return fail(LWMQ_E_INVALID,
                bounded ? "capacity %" PRIu64
                          " of a bounded receive queue; say how many messages it may hold (%s)"
                        : "capacity %" PRIu64
                          " of an unbounded receive queue; leave it 0, or take a bounded kind (%s)",
                given.receive_capacity, address);
  }
  if (kind != LWMQ_QUEUE_MONO_UNBOUNDED && given.raw != 0)
    return fail(LWMQ_E_INVALID,
                "a raw channel has no receive queue: its buffers are received as they lie (%s)", address);
  return LWMQ_OK;
}

}  // namespace

Channel::Channel(const char* address, const lwmq_tli_provider* provider) noexcept
    : address_(address),
      provider_(provider),
      membarrier_(os::membarrier_available()),
      receiver_(provider),
      entry_(stats::open_entry(stats::EntryKind::kChannel, address)) {}

Channel::~Channel() {
  Completions completions;
  while (withdrawn_ != nullptr) {
    Message* one = withdrawn_;
    withdrawn_ = one->next;
    completions.add(one);
  }
}

Status Channel::create(const char* address, const lwmq_channel_options& given, Channel** out_channel) {
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

  lwmq_tli_options wanted{};
  wanted.size = sizeof wanted;
  wanted.buffer_bytes = first_said(given.buffer_bytes, said.buffer_bytes,
                                   std::min(kDefaultBufferBytes, limits.buffer_bytes_max));
  wanted.buffers_send =
      first_said(given.buffers_send, said.buffers_send,
                 static_cast<std::uint32_t>(std::min<std::uint64_t>(kDefaultBuffers, limits.buffers_max)));
  wanted.buffers_receive =
      first_said(given.buffers_receive, said.buffers_receive, 0u);  // 0: what the peer makes
  wanted.secure_erase = given.secure_erase != 0 ? 1 : 0;
  const bool passes = given.raw == 0 && (limits.capabilities & LWMQ_IS_IN_PROCESS) != 0;
  wanted.drop = passes ? drop_extent : nullptr;
  static std::atomic<std::uint32_t> channels{0};
  wanted.channel = channels.fetch_add(1, std::memory_order_relaxed) + 1;
  wanted.purpose = given.raw != 0 ? LWMQ_TLI_FOR_RAW : LWMQ_TLI_FOR_MESSAGES;
  if (wanted.buffer_bytes < kBufferBytesMin || wanted.buffer_bytes > limits.buffer_bytes_max) {
    return fail(LWMQ_E_INVALID, "buffers of %" PRIu64 " bytes; %" PRIu64 " to %" PRIu64 " are possible (%s)",
                wanted.buffer_bytes, kBufferBytesMin, limits.buffer_bytes_max, bare.c_str());
  }
  if (given.secure_erase != 0 && (limits.capabilities & LWMQ_CAN_ERASE) == 0)
    return fail(LWMQ_E_UNSUPPORTED, "this transport cannot erase its buffers (%s)", bare.c_str());
  const std::uint64_t buffers = std::uint64_t{wanted.buffers_send} + wanted.buffers_receive;
  if (buffers > limits.buffers_max) {
    return fail(LWMQ_E_INVALID,
                "%" PRIu64 " buffers (%u to send and %u to receive); %" PRIu64 " are possible (%s)", buffers,
                wanted.buffers_send, wanted.buffers_receive, limits.buffers_max, bare.c_str());
  }

  std::unique_ptr<lwmq_tli_filters> filters;
  status = tli::make_filters(bare.c_str(), &filters);
  if (status != LWMQ_OK) return status;
  status = check_receive_queue(given, bare.c_str());
  if (status != LWMQ_OK) return status;

  auto* made = new (std::nothrow) Channel(bare.c_str(), provider);
  if (made == nullptr) return fail(LWMQ_E_NO_MEMORY, "no memory for a channel (%s)", bare.c_str());
  made->tli_options_ = wanted;
  made->filters_ = std::move(filters);
  made->tli_options_.filters = made->filters_.get();
  made->retry_ms_ = first_said(given.retry_ms, said.retry_ms, kDefaultRetryMs);
  made->raw_ = given.raw != 0;
  made->one_way_ = (limits.capabilities & LWMQ_IS_ONE_WAY) != 0;
  made->passes_ = passes;
  made->secure_erase_ = given.secure_erase != 0;
  if (made->secure_erase_) made->receiver_.erase_messages();
  if (given.home_thread != 0) {
    made->pump_.make_home();
    made->landing_.make_home();
  }
  if (given.receive_queue != LWMQ_QUEUE_MONO_UNBOUNDED)
    made->queue_ = std::make_shared<ReceiveQueue>(given.receive_queue, given.receive_capacity);
  *out_channel = made;
  return LWMQ_OK;
}

void Channel::destroy(Channel* channel) {
  if (os::forked()) return;  // its threads and its memory are the parent's: the child forgets it
  channel->close(0);
  delete channel;
}

// ---- Queues -----------------------------------------------------------------------------------------

Status Channel::check_queue_options(const lwmq_send_queue_options& options) const noexcept {
  if (options.kind >= SendQueue::kKinds) {
    return fail(LWMQ_E_INVALID, "there is no kind %u of send queue; there are 0 to %u (%s)", options.kind,
                SendQueue::kKinds - 1, address_.c_str());
  }
  if (SendQueue::is_bounded(options.kind) && options.capacity == 0) {
    return fail(LWMQ_E_INVALID,
                "capacity 0 of a bounded send queue (kind %u); say how many messages it may hold (%s)",
                options.kind, address_.c_str());
  }
  if (!SendQueue::is_bounded(options.kind) && options.capacity != 0) {
    return fail(LWMQ_E_INVALID,
                "capacity %" PRIu64
                " of an unbounded send queue (kind %u); leave it 0, or take a bounded kind (%s)",
                options.capacity, options.kind, address_.c_str());
  }
  return check_priority(priority_said(options));
}

Status Channel::check_priority(std::uint32_t priority) const noexcept {
  if (priority >= LWMQ_PRIORITY_TIME_CRITICAL && priority <= LWMQ_PRIORITY_IDLE) return LWMQ_OK;
  return fail(LWMQ_E_INVALID, "priority %u; there are 1 (time critical) to 7 (idle) (%s)", priority,
              address_.c_str());
}

Status Channel::add_send_queue(const lwmq_send_queue_options& options, ChannelQueue** out_queue) {
  if (raw_)
    return fail(LWMQ_E_INVALID, "a raw channel has no queues: get and send buffers (%s)", address_.c_str());
  if (phase_.load() >= Phase::kClosing || os::forked()) return refuse_phase();
  Status status = check_queue_options(options);
  if (status == LWMQ_OK) status = check_sends(role_);
  if (status != LWMQ_OK) return status;
  auto queue = std::make_unique<ChannelQueue>(this, options.kind, priority_said(options), options.capacity);
  *out_queue = queue.get();
  queue->entry =
      stats::open_entry(stats::EntryKind::kQueue, address_.c_str(), std::to_string(queues_.size()).c_str());
  stats::set(queue->entry->priority, queue->priority());
  take_pump();
  scheduler_.add(queue.get());
  queues_.push_back(std::move(queue));
  pump_and_release();
  return LWMQ_OK;
}

Status Channel::set_priority(ChannelQueue* queue, std::uint32_t priority) noexcept {
  if (phase_.load() >= Phase::kClosing || os::forked()) return refuse_phase();
  const Status status = check_priority(priority);
  if (status != LWMQ_OK) return status;
  take_pump();
  scheduler_.set_priority(queue, priority);
  stats::set(queue->entry->priority, priority);
  pump_and_release();
  return LWMQ_OK;
}

Status Channel::set_weights(const std::uint32_t* weights, std::uint32_t count) noexcept {
  if (phase_.load() >= Phase::kClosing || os::forked()) return refuse_phase();
  std::array<std::uint32_t, scheduler::kWeightedGroups> known{};
  if (count != known.size()) {
    return fail(LWMQ_E_INVALID, "%u weights; there are %zu, for the priorities highest to lowest (%s)", count,
                known.size(), address_.c_str());
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    if (weights[i] > kWeightMax) {
      return fail(LWMQ_E_INVALID, "weight %u of priority %u; 0 to %u are possible (%s)", weights[i],
                  LWMQ_PRIORITY_HIGHEST + i, kWeightMax, address_.c_str());
    }
    known[i] = weights[i];
  }
  take_pump();
  scheduler_.set_weights(known);
  pump_and_release();
  return LWMQ_OK;
}

Status Channel::query_queue(const ChannelQueue* queue, lwmq_send_queue_statistics* out_statistics) const {
  if (phase_.load() == Phase::kClosed || os::forked()) return refuse_phase();
  const SendQueue::Counts counts = queue->counts();
  out_statistics->kind = queue->kind();
  out_statistics->priority = queue->priority();
  out_statistics->capacity = queue->capacity();
  out_statistics->posted = counts.posted;
  out_statistics->collected = counts.collected;
  out_statistics->discarded = counts.discarded;
  out_statistics->replaced = counts.replaced;
  out_statistics->queued = counts.queued;
  return LWMQ_OK;
}

Status Channel::open(std::int32_t role) {
  if (os::forked() || phase_.load() >= Phase::kClosing) return refuse_phase();
  if (phase_.load() == Phase::kOpen)
    return fail(LWMQ_E_INVALID, "the channel is open already (%s)", address_.c_str());
  if (role < LWMQ_ROLE_AUTO || role > LWMQ_ROLE_CLIENT)
    return fail(LWMQ_E_INVALID, "there is no role %d; there are 0 (automatic), 1 (server), 2 (client) (%s)",
                role, address_.c_str());
  if (one_way_ && role == LWMQ_ROLE_AUTO) {
    return fail(LWMQ_E_UNSUPPORTED,
                "this transport carries one way, from who serves to who connects: open it in one of these "
                "roles (%s)",
                address_.c_str());
  }
  Status status = queues_.empty() ? LWMQ_OK : check_sends(role);
  if (status != LWMQ_OK) return status;
  role_ = role;
  receives_plainly_ = !raw_ && queue_ == nullptr && !is_one_of_several();
  start_services();
  status = ServiceThread::attending().add(&attend_);
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
  if (role == LWMQ_ROLE_AUTO) connect(os::now_ns(), true);
  ServiceThread::attending().request(&attend_);
  return LWMQ_OK;
}

Status Channel::check_sends(std::int32_t role) const noexcept {
  if (!one_way_ || role != LWMQ_ROLE_CLIENT) return LWMQ_OK;
  return fail(LWMQ_E_UNSUPPORTED,
              "this transport carries one way: who connects receives and cannot send; what needs both ways "
              "needs another transport (%s)",
              address_.c_str());
}

Status Channel::check_receives() const noexcept {
  if (!one_way_ || role_ != LWMQ_ROLE_SERVER) return LWMQ_OK;
  return fail(
      LWMQ_E_UNSUPPORTED,
      "this transport carries one way: who serves sends and cannot receive; what needs both ways needs "
      "another transport (%s)",
      address_.c_str());
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

}  // namespace lwmq::channel
