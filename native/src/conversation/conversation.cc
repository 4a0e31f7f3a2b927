// Making and opening; the priorities and weights of queues.
#include "conversation/conversation.h"

#include "base/limits.h"
#include "filters/filtered.h"
#include "os/clock.h"
#include "os/identity.h"
#include "os/membarrier.h"
#include "service/provider_services.h"

namespace lwmq::conversation {

Conversation::Conversation(const Settings& settings, Shared& shared, std::size_t place, const char* name)
    : shared_(shared),
      place_(place),
      settings_(settings),
      provider_(settings.provider),
      tli_(settings.provider->transport),
      membarrier_(os::membarrier_available()),
      receiver_(settings.provider),
      queue_(shared.queue.get()),
      entry_(stats::open_entry(stats::EntryKind::kChannel, settings.address.c_str(), name)) {
  if (erases()) receiver_.erase_messages();
  if (settings.home_thread) {
    pump_.make_home();
    landing_.make_home();
  }
}

Conversation::~Conversation() {
  Completions completions;
  while (withdrawn_ != nullptr) {
    Message* one = withdrawn_;
    withdrawn_ = one->next;
    completions.add(one);
  }
}

void Conversation::share_home(const Conversation& other) noexcept {
  pump_.share_home(other.pump_);
  landing_.share_home(other.landing_);
}

Status Conversation::accept(lwmq_tli_transport* transport) {
  if (const Status status = start(LWMQ_ROLE_SERVER); status != LWMQ_OK) return status;
  for_one_peer_ = true;
  is_server_.store(true, std::memory_order_relaxed);
  phase_.store(Phase::kOpen);
  attach(transport);
  return LWMQ_OK;
}

// ---- Queues -----------------------------------------------------------------------------------------

Status Conversation::check_priority(std::uint32_t priority) const noexcept {
  if (priority >= LWMQ_PRIORITY_TIME_CRITICAL && priority <= LWMQ_PRIORITY_IDLE) return LWMQ_OK;
  return fail(LWMQ_E_INVALID, "priority %u; there are 1 (time critical) to 7 (idle) (%s)", priority,
              settings_.address.c_str());
}

Status Conversation::check_adding(const lwmq_send_queue_options& options) const noexcept {
  if (settings_.raw)
    return fail(LWMQ_E_INVALID, "a raw channel has no queues: get and send buffers (%s)",
                settings_.address.c_str());
  if (!is_usable()) return refuse_phase();
  if (options.kind >= SendQueue::kKinds) {
    return fail(LWMQ_E_INVALID, "there is no kind %u of send queue; there are 0 to %u (%s)", options.kind,
                SendQueue::kKinds - 1, settings_.address.c_str());
  }
  if (SendQueue::is_bounded(options.kind) && options.capacity == 0) {
    return fail(LWMQ_E_INVALID,
                "capacity 0 of a bounded send queue (kind %u); say how many messages it may hold (%s)",
                options.kind, settings_.address.c_str());
  }
  if (!SendQueue::is_bounded(options.kind) && options.capacity != 0) {
    return fail(LWMQ_E_INVALID,
                "capacity %" PRIu64
                " of an unbounded send queue (kind %u); leave it 0, or take a bounded kind (%s)",
                options.capacity, options.kind, settings_.address.c_str());
  }
  const Status status = check_priority(options.priority);
  return status == LWMQ_OK ? check_sends(role_) : status;
}

void Conversation::prepare(CountedQueue& queue) const {
  const std::string& channel = entry_->name;
  const std::string name = channel + (channel.empty() ? "" : ".") + std::to_string(scheduler_.queue_count());
  queue.entry = stats::open_entry(stats::EntryKind::kQueue, settings_.address.c_str(), name.c_str());
  stats::set(queue.entry->priority, queue.priority());
}

void Conversation::add(CountedQueue& queue) noexcept {
  take_pump();
  scheduler_.add(&queue);
  pump_and_release();
}

Status Conversation::set_priority(CountedQueue* queue, std::uint32_t priority) noexcept {
  if (!is_usable()) return refuse_phase();
  const Status status = check_priority(priority);
  if (status != LWMQ_OK) return status;
  take_pump();
  scheduler_.set_priority(queue, priority);
  stats::set(queue->entry->priority, priority);
  pump_and_release();
  return LWMQ_OK;
}

Status Conversation::set_weights(const std::uint32_t* weights, std::uint32_t count) noexcept {
  if (!is_usable()) return refuse_phase();
  std::array<std::uint32_t, scheduler::kWeightedGroups> known{};
  if (count != known.size()) {
    return fail(LWMQ_E_INVALID, "%u weights; there are %zu, for the priorities highest to lowest (%s)", count,
                known.size(), settings_.address.c_str());
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    if (weights[i] > kWeightMax) {
      return fail(LWMQ_E_INVALID, "weight %u of priority %u; 0 to %u are possible (%s)", weights[i],
                  LWMQ_PRIORITY_HIGHEST + i, kWeightMax, settings_.address.c_str());
    }
    known[i] = weights[i];
  }
  take_pump();
  scheduler_.set_weights(known);
  pump_and_release();
  return LWMQ_OK;
}

// What every conversation does that opens.
Status Conversation::start(std::int32_t role) {
  role_ = role;
  receives_plainly_ = !settings_.raw && queue_ == nullptr && shared_.is_alone;
  Status status = service::start_service(*provider_);
  if (status == LWMQ_OK) status = service::ServiceThread::attending().add(&attend_);
  attending_ = status == LWMQ_OK;
  return status;
}

Status Conversation::open(std::int32_t role) {
  if (os::forked() || phase_.load() > Phase::kOpen) return refuse_phase();
  if (phase_.load() == Phase::kOpen)
    return fail(LWMQ_E_INVALID, "the channel is open already (%s)", settings_.address.c_str());
  if (role < LWMQ_ROLE_AUTO || role > LWMQ_ROLE_CLIENT)
    return fail(LWMQ_E_INVALID, "there is no role %d; there are 0 (automatic), 1 (server), 2 (client) (%s)",
                role, settings_.address.c_str());
  if (settings_.one_way && role == LWMQ_ROLE_AUTO) {
    return fail(LWMQ_E_UNSUPPORTED,
                "this transport carries one way, from who serves to who connects: open it in one of these "
                "roles (%s)",
                settings_.address.c_str());
  }
  Status status = scheduler_.queue_count() == 0 ? LWMQ_OK : check_sends(role);
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
  ask_service();  // which has an attempt gone on with
  if (role == LWMQ_ROLE_AUTO) settle_role();
  return LWMQ_OK;
}

Status Conversation::check_sends(std::int32_t role) const noexcept {
  if (!settings_.one_way || role != LWMQ_ROLE_CLIENT) return LWMQ_OK;
  return fail(LWMQ_E_UNSUPPORTED,
              "this transport carries one way: who connects receives and cannot send; what needs both ways "
              "needs another transport (%s)",
              settings_.address.c_str());
}

Status Conversation::refuse_to_receive() const noexcept {
  return fail(
      LWMQ_E_UNSUPPORTED,
      "this transport carries one way: who serves sends and cannot receive; what needs both ways needs "
      "another transport (%s)",
      settings_.address.c_str());
}

Status Conversation::filters(filters::Filters** out_filters) const {
  if (is_closed() || os::forked()) return refuse_phase();
  if (settings_.filters == nullptr)
    return fail(LWMQ_E_UNSUPPORTED,
                "this channel was made without filters: its address may begin with filters+ (%s)",
                settings_.address.c_str());
  *out_filters = settings_.filters.get();
  return LWMQ_OK;
}

bool Conversation::has_dropped() const noexcept {
  return settings_.filters != nullptr && settings_.filters->dropped() > 0;
}

}  // namespace lwmq::conversation
