// Making and opening; queues, their priorities and weights.
#include "channel/channel.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/limits.h"
#include "codec/encoder.h"
#include "filters/filtered.h"
#include "os/clock.h"
#include "os/identity.h"
#include "os/membarrier.h"
#include "service/provider_services.h"
#include "tli/registry.h"

namespace lwmq::channel {

namespace {

constexpr std::int64_t kLeavingPauseNs = 50'000;

std::uint32_t priority_said(const lwmq_send_queue_options& options) noexcept {
  return options.priority != 0 ? options.priority : std::uint32_t{LWMQ_PRIORITY_NORMAL};
}

}  // namespace

Channel::Channel(const Settings& settings, const char* name)
    : address_(settings.address),
      provider_(settings.provider),
      tli_(settings.provider->transport),
      tli_options_(settings.transport),
      values_(settings.values),
      filters_(settings.filters),
      retry_ms_(settings.retry_ms),
      raw_(settings.raw),
      one_way_(settings.one_way),
      passes_(settings.passes),
      secure_erase_(settings.transport.secure_erase != 0),
      membarrier_(os::membarrier_available()),
      receiver_(settings.provider),
      entry_(stats::open_entry(stats::EntryKind::kChannel, settings.address.c_str(), name)) {
  if (secure_erase_) receiver_.erase_messages();
  if (settings.home_thread) {
    pump_.make_home();
    landing_.make_home();
  }
  if (settings.receive_queue != LWMQ_QUEUE_MONO_UNBOUNDED)
    queue_ = std::make_shared<ReceiveQueue>(settings.receive_queue, settings.receive_capacity);
}

Channel::~Channel() {
  Completions completions;
  while (withdrawn_ != nullptr) {
    Message* one = withdrawn_;
    withdrawn_ = one->next;
    completions.add(one);
  }
}

Status Channel::make(const Settings& settings, std::uint64_t client, Channel** out_channel) {
  try {
    *out_channel = new Channel(settings, client == 0 ? "" : std::to_string(client).c_str());
    return LWMQ_OK;
  } catch (const std::bad_alloc&) {
    return fail(LWMQ_E_NO_MEMORY, "no memory for a channel (%s)", settings.address.c_str());
  }
}

Status Channel::create(const char* address, const lwmq_channel_options& given, Channel** out_channel) {
  Settings settings;
  const Status status = read_settings(address, given, &settings);
  if (status != LWMQ_OK) return status;
  static std::atomic<std::uint32_t> channels{0};
  settings.transport.channel = channels.fetch_add(1, std::memory_order_relaxed) + 1;
  return make(settings, 0, out_channel);
}

Status Channel::accept(const Settings& settings, lwmq_tli_transport* transport, std::uint64_t client,
                       Channel** out_channel) {
  Channel* made = nullptr;
  Status status = make(settings, client, &made);
  if (status == LWMQ_OK) status = made->start(LWMQ_ROLE_SERVER);
  if (status != LWMQ_OK) {
    delete made;
    settings.provider->transport->close(transport, 0, 0);
    return status;
  }
  made->for_one_peer_ = true;
  made->is_server_.store(true, std::memory_order_relaxed);
  made->phase_.store(Phase::kOpen);
  made->attach(transport);
  *out_channel = made;
  return LWMQ_OK;
}

void Channel::destroy(Channel* channel) {
  if (os::forked()) return;  // its threads and its memory are the parent's: the child forgets it
  channel->close(0);
  while (channel->callers_.load() != 0) {  // sync: caller; they were woken
    const timespec pause{0, kLeavingPauseNs};
    nanosleep(&pause, nullptr);
  }
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
  const std::string channel = entry_->name;
  struct Held {  // memory may be short
    explicit Held(Channel* channel) noexcept : of(channel) { of->take_pump(); }
    ~Held() { of->pump_and_release(); }
    Channel* const of;
  } const held(this);
  const std::string name = channel + (channel.empty() ? "" : ".") + std::to_string(queues_.size());
  queue->entry = stats::open_entry(stats::EntryKind::kQueue, address_.c_str(), name.c_str());
  stats::set(queue->entry->priority, queue->priority());
  ChannelQueue* const made = queue.get();
  queues_.push_back(std::move(queue));
  scheduler_.add(made);
  *out_queue = made;
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
  if (os::forked()) return refuse_phase();
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

// What every channel does that opens.
Status Channel::start(std::int32_t role) {
  role_ = role;
  receives_plainly_ = !raw_ && queue_ == nullptr && !is_one_of_several();
  Status status = service::start_service(*provider_);
  if (status == LWMQ_OK) status = service::ServiceThread::attending().add(&attend_);
  attending_ = status == LWMQ_OK;
  return status;
}

Status Channel::open(std::int32_t role) {
  if (os::forked() || phase_.load() > Phase::kOpen) return refuse_phase();
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
  status = start(role);
  if (status != LWMQ_OK) return status;
  status = service::ServiceThread::connecting().add(&connect_);
  if (status == LWMQ_OK && role == LWMQ_ROLE_SERVER) status = listen();
  if (status != LWMQ_OK) {
    service::ServiceThread::attending().remove(&attend_);
    service::ServiceThread::connecting().remove(&connect_);
    attending_ = false;
    return status;
  }
  phase_.store(Phase::kOpen);
  if (role == LWMQ_ROLE_AUTO) connect(os::now_ns());
  service::ServiceThread::attending().request(&attend_);  // which has an attempt gone on with
  if (role == LWMQ_ROLE_AUTO) settle_role();
  return LWMQ_OK;
}

Status Channel::check_sends(std::int32_t role) const noexcept {
  if (!one_way_ || role != LWMQ_ROLE_CLIENT) return LWMQ_OK;
  return fail(LWMQ_E_UNSUPPORTED,
              "this transport carries one way: who connects receives and cannot send; what needs both ways "
              "needs another transport (%s)",
              address_.c_str());
}

Status Channel::refuse_to_receive() const noexcept {
  return fail(
      LWMQ_E_UNSUPPORTED,
      "this transport carries one way: who serves sends and cannot receive; what needs both ways needs "
      "another transport (%s)",
      address_.c_str());
}

Status Channel::filters(filters::Filters** out_filters) const {
  if (phase_.load() == Phase::kClosed || os::forked()) return refuse_phase();
  if (filters_ == nullptr)
    return fail(LWMQ_E_UNSUPPORTED,
                "this channel was made without filters: its address may begin with filters+ (%s)",
                address_.c_str());
  *out_filters = filters_.get();
  return LWMQ_OK;
}

bool Channel::has_dropped() const noexcept { return filters_ != nullptr && filters_->dropped() > 0; }

}  // namespace lwmq::channel
