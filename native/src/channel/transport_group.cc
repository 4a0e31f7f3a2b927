#include "channel/transport_group.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "channel/requests.h"
#include "channel/router.h"
#include "channel/selector.h"
#include "message/external.h"
#include "os/deadline.h"
#include "os/identity.h"

namespace lwmq::channel {
namespace {

constexpr std::uint32_t kTransportsMax = 64;
static_assert(kTransportsMax <= ReceiveQueue::kPlacesMax && kTransportsMax <= reliability::Merge::kWaysMax);
constexpr int kLandingsMax = 256;  // of what waits in one transport, before a receive takes some of it
constexpr std::int64_t kWaySliceNs =
    10 * os::kMillisecond;  // for one of redundant transports, before the next is asked

// What is left of a time that several calls share.
std::uint32_t rest_of(std::uint32_t timeout_ms, std::int64_t deadline) noexcept {
  return timeout_ms == 0 ? 0 : os::ms_left(deadline);
}

}  // namespace

// ---- Making -----------------------------------------------------------------------------------------

Status TransportGroup::add_transport(Channel* head, const char* address,
                                     const lwmq_transport_options& options) {
  const char* first = head->address_.c_str();
  if (os::forked() || head->phase_.load() >= Channel::Phase::kClosing) return head->refuse_phase();
  if (head->phase_.load() != Channel::Phase::kCreated)
    return fail(LWMQ_E_INVALID, "transports are added before the channel is opened (%s)", first);
  if (head->raw_)
    return fail(LWMQ_E_INVALID, "a raw channel has one transport: its buffers are that transport's (%s)",
                first);
  const bool redundant = options.redundant != 0;
  if (!head->more_.empty() && redundant != head->redundant_) {
    return fail(LWMQ_E_INVALID, "%s: %s; all transports of a channel are redundant, or none is (%s)", address,
                redundant ? "redundant beside others that are not" : "not redundant beside others that are",
                first);
  }
  if (redundant && head->queue_ != nullptr) {
    return fail(LWMQ_E_UNSUPPORTED,
                "%s: redundant transports beside a receive queue for several threads: one thread makes one "
                "stream of what comes twice; take the mono receive queue (%s)",
                address, first);
  }
  if (head->scheduler_.posted() != 0)
    return fail(
        LWMQ_E_INVALID,
        "%s: transports are added before the first post, or their peers would miss what was posted (%s)",
        address, first);
  if (head->more_.size() + 1 >= kTransportsMax)
    return fail(LWMQ_E_INVALID, "a channel has at most %u transports (%s)", kTransportsMax, first);
  AddressOptions said;
  Status status = read_address_options(address, &said);
  if (status != LWMQ_OK) return status;
  const std::uint64_t wanted = options.buffer_bytes != 0 ? options.buffer_bytes : said.buffer_bytes;
  if (wanted != 0 && wanted != head->tli_options_.buffer_bytes) {
    return fail(LWMQ_E_INVALID,
                "%s: buffers of %" PRIu64 " bytes beside those of %" PRIu64
                " at %s; the transports of a channel have one size of buffers, which is its largest message",
                address, wanted, head->tli_options_.buffer_bytes, first);
  }
  lwmq_channel_options as_first{};
  as_first.size = sizeof as_first;
  as_first.buffer_bytes = head->tli_options_.buffer_bytes;
  as_first.buffers_send = options.buffers_send;
  as_first.buffers_receive = options.buffers_receive;
  as_first.retry_ms = options.retry_ms;
  as_first.secure_erase = head->secure_erase_ ? 1 : 0;  // the same content, whatever it travels over
  std::int32_t fd = -1;
  status = head->descriptor(&fd);
  if (status != LWMQ_OK) return status;
  Channel* created = nullptr;
  status = Channel::create(address, as_first, &created);
  if (status != LWMQ_OK) return status;
  const auto destroy = [](Channel* channel) { Channel::destroy(channel); };
  std::unique_ptr<Channel, decltype(destroy)> made(created);  // memory may be short
  if (head->one_way_ || made->one_way_) {
    return fail(LWMQ_E_UNSUPPORTED, "%s: a further transport where one of them carries one way alone (%s)",
                address, first);
  }
  made->head_ = head;
  made->place_ = head->more_.size() + 1;
  made->redundant_ = redundant;
  made->queue_ = head->queue_;
  made->pump_.share_home(head->pump_);
  made->landing_.share_home(head->landing_);
  made->tli_options_.channel = head->tli_options_.channel;
  made->descriptor_.store(head->descriptor_.load());
  std::vector<ChannelQueue*> replicas;
  for (const auto& queue : head->queues_) {
    lwmq_send_queue_options same{};
    same.size = sizeof same;
    same.kind = queue->kind();
    same.priority = queue->priority();
    same.capacity = queue->capacity();
    status = made->add_send_queue(same, &replicas.emplace_back());
    if (status != LWMQ_OK) return status;
  }
  head->more_.reserve(head->more_.size() + 1);
  if (head->queue_ != nullptr) head->queue_->tell_apart(head->more_.size() + 2);
  if (redundant) {
    if (!head->redundant_) begin_redundancy(head);
    made->receiver_.keep_numbers();
  }
  // Nothing fails from here on.
  head->more_.push_back(made.release());
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    ChannelQueue* last = head->queues_[i].get();
    while (last->replica != nullptr) last = last->replica;
    last->replica = replicas[i];
  }
  return LWMQ_OK;
}

// With the first transport that is redundant to the head's own.
void TransportGroup::begin_redundancy(Channel* head) {
  auto merge = std::make_unique<reliability::Merge>();
  std::vector<std::unique_ptr<reliability::Numbering>> numberings(head->queues_.size());
  for (auto& numbering : numberings) numbering = std::make_unique<reliability::Numbering>();
  head->redundant_ = true;
  head->merge_ = std::move(merge);
  head->receiver_.keep_numbers();
  for (std::size_t i = 0; i < numberings.size(); ++i) head->queues_[i]->numbering = std::move(numberings[i]);
}

Status TransportGroup::add_send_queue(Channel* head, const lwmq_send_queue_options& options,
                                      ChannelQueue** out_queue) {
  ChannelQueue* made = nullptr;
  Status status = head->add_send_queue(options, &made);
  if (status == LWMQ_OK && head->redundant_) made->numbering = std::make_unique<reliability::Numbering>();
  ChannelQueue* last = made;
  for (Channel* channel : head->more_) {
    if (status != LWMQ_OK) return status;
    status = channel->add_send_queue(options, &last->replica);
    last = last->replica;
  }
  if (status == LWMQ_OK) *out_queue = made;
  return status;
}

Status TransportGroup::common_queue(Channel* head, ChannelQueue** out_queue) {
  ChannelQueue* known = head->common_queue_.load(std::memory_order_acquire);  // sync: common
  if (known != nullptr && head->phase_.load() < Channel::Phase::kClosing && !os::forked()) {
    *out_queue = known;
    return LWMQ_OK;
  }
  lwmq_send_queue_options options{};
  options.size = sizeof options;
  options.kind = LWMQ_QUEUE_MULTI_UNBOUNDED;
  ChannelQueue* made = nullptr;
  const Status status = add_send_queue(head, options, &made);  // refuses a closed channel
  if (status != LWMQ_OK) return status;
  // Of several threads that come first at once, the queues of all but one stay unused.
  *out_queue = head->common_queue_.compare_exchange_strong(known, made) ? made : known;  // sync: common
  return LWMQ_OK;
}

Status TransportGroup::set_priority(ChannelQueue* queue, std::uint32_t priority) noexcept {
  Status status = LWMQ_OK;
  for (; queue != nullptr && status == LWMQ_OK; queue = queue->replica)
    status = queue->channel->set_priority(queue, priority);
  return status;
}

Status TransportGroup::set_weights(Channel* head, const std::uint32_t* weights,
                                   std::uint32_t count) noexcept {
  return all(head, [&](Channel& channel) { return channel.set_weights(weights, count); });
}

Status TransportGroup::query_queue(const ChannelQueue* queue, lwmq_send_queue_statistics* out_statistics) {
  Status status = queue->channel->query_queue(queue, out_statistics);
  for (queue = queue->replica; queue != nullptr && status == LWMQ_OK; queue = queue->replica) {
    lwmq_send_queue_statistics one{};
    status = queue->channel->query_queue(queue, &one);
    out_statistics->collected += one.collected;
    out_statistics->discarded += one.discarded;
    out_statistics->replaced += one.replaced;
    out_statistics->queued += one.queued;
  }
  return status;
}

Status TransportGroup::open(Channel* head, std::int32_t role) {
  if (head->more_.empty()) return head->open(role);
  const Status status = all(head, [&](Channel& channel) { return channel.open(role); });
  if (status == LWMQ_OK) return LWMQ_OK;
  Failure failure;
  failure.keep(status);
  each(head, [](Channel& channel) { channel.close(0); });
  return failure.tell();
}

Status TransportGroup::wait_connected(Channel* head, std::uint32_t timeout_ms) {
  const Channel::Inside inside(*head);
  const std::int64_t deadline = os::deadline_of(timeout_ms);
  if (head->redundant_) return wait_for_a_way(head, deadline);
  return all(head, [&](Channel& channel) { return channel.wait_connected(rest_of(timeout_ms, deadline)); });
}

bool TransportGroup::has_peer(const Channel& head) noexcept {
  const auto attached = [](const Channel& channel) {
    return channel.attached_.load(std::memory_order_relaxed) != nullptr;
  };
  return attached(head) || std::any_of(head.more_.begin(), head.more_.end(),
                                       [&](const auto& channel) { return attached(*channel); });
}

// Until one of redundant transports has a peer.
Status TransportGroup::wait_for_a_way(Channel* head, std::int64_t deadline) {
  for (;;) {
    const std::uint32_t seen = head->changes_.load(std::memory_order_acquire);  // sync: change
    if (head->phase_.load() == Channel::Phase::kClosed) return head->refuse_phase();
    lwmq_channel_statistics now{};
    now.size = sizeof now;
    Status status = query(head, &now);  // also notices peers that are gone
    if (status != LWMQ_OK || now.connected != 0) return status;
    status = all(head, [](Channel& channel) { return channel.connect_failure(); });
    if (status == LWMQ_OK) status = os::wait_for_change(seen, deadline, head->changes_);
    if (status != LWMQ_OK) return status;
  }
}

// ---- Posting ----------------------------------------------------------------------------------------

Status TransportGroup::post_to_each(ChannelQueue* queue, Message* message, std::uint64_t tag) noexcept {
  if (queue->numbering == nullptr) return lay_to_each(queue, message, tag);
  if (os::forked()) return queue->channel->refuse_phase();  // a parent's thread may hold the lock for ever
  reliability::Numbering& numbering = *queue->numbering;
  const message::HeldReleases held;
  const std::lock_guard lock(numbering.mutex);
  Status status = message->put_number(numbering.next);
  if (status != LWMQ_OK) return status;
  status = lay_to_each(queue, message, tag);
  if (status == LWMQ_OK) {
    ++numbering.next.place;
  } else {
    message->take_number();  // the caller's again, as it was
  }
  return status;
}

Status TransportGroup::lay_to_each(ChannelQueue* queue, Message* message, std::uint64_t tag) noexcept {
  Message* references = nullptr;  // made first: a message reaches every transport, or none
  const auto drop = [&references] {
    while (references != nullptr) {
      Message* next = references->next;
      Message::destroy(references);
      references = next;
    }
  };
  for (ChannelQueue* replica = queue->replica; replica != nullptr; replica = replica->replica) {
    Message* reference = message->reference();
    if (reference == nullptr) {
      drop();
      return fail(LWMQ_E_NO_MEMORY, "no memory for a message (%s)", queue->channel->address_.c_str());
    }
    reference->next = references;
    references = reference;
  }
  const Status status = queue->channel->post(queue, message, tag);
  if (status != LWMQ_OK) {
    drop();
    return status;
  }
  for (ChannelQueue* replica = queue->replica; replica != nullptr; replica = replica->replica) {
    Message* reference = references;
    references = reference->next;
    reference->next = nullptr;
    if (replica->channel->post(replica, reference, tag) == LWMQ_OK) continue;
    Message::destroy(reference);  // no memory, or closed just now
    replica->channel->messages_lost_.fetch_add(1, std::memory_order_relaxed);
  }
  return LWMQ_OK;
}

Status TransportGroup::post_copy_to_each(ChannelQueue* queue, const void* data,
                                         std::uint64_t bytes) noexcept {
  Message* message = Message::copy_of(data, bytes);
  if (message == nullptr)
    return fail(LWMQ_E_NO_MEMORY, "no memory for a message of %" PRIu64 " bytes", bytes);
  const Status status = post_to_each(queue, message, 0);
  if (status != LWMQ_OK) Message::destroy(message);
  return status;
}

Status TransportGroup::post_wait(ChannelQueue* queue, Message* message, std::uint64_t tag,
                                 std::uint32_t timeout_ms, bool or_discard) noexcept {
  if (queue->replica == nullptr) [[likely]]
    return queue->channel->post_wait(queue, message, tag, timeout_ms, or_discard);
  if (timeout_ms == 0 && or_discard) return post_to_each(queue, message, tag);
  return refuse_to_wait(*queue);
}

Status TransportGroup::wait_room(ChannelQueue* queue, std::uint32_t timeout_ms) noexcept {
  return queue->replica == nullptr ? queue->channel->wait_room(queue, timeout_ms) : refuse_to_wait(*queue);
}

Status TransportGroup::refuse_to_wait(const ChannelQueue& queue) noexcept {
  return fail(
      LWMQ_E_UNSUPPORTED,
      "a message for several transports cannot wait for room: each has a queue of its own; post without "
      "a timeout, and the rule of the queue applies to each (%s)",
      queue.channel->address_.c_str());
}

Status TransportGroup::post_many(ChannelQueue* queue, const lwmq_bytes* frames, std::uint64_t count,
                                 std::uint64_t* out_posted) noexcept {
  if (queue->replica == nullptr) [[likely]]
    return queue->channel->post_many(queue, frames, count, out_posted);
  *out_posted = 0;
  Status status = queue->channel->admit_all(frames, count);
  for (; *out_posted < count && status == LWMQ_OK; *out_posted += status == LWMQ_OK)
    status = post_bytes(queue, frames[*out_posted].data, frames[*out_posted].bytes);
  return status;
}

Status TransportGroup::post_messages(ChannelQueue* queue, Message** messages, std::uint64_t count,
                                     std::uint64_t* out_posted) noexcept {
  if (queue->replica == nullptr) [[likely]]
    return queue->channel->post_messages(queue, messages, count, out_posted);
  *out_posted = 0;
  Status status = queue->channel->admit_all(queue, messages, count);
  for (; *out_posted < count && status == LWMQ_OK; *out_posted += status == LWMQ_OK) {
    Message*& message = messages[*out_posted];
    status = post_to_each(queue, message, 0);
    if (status == LWMQ_OK) message = nullptr;
  }
  return status;
}

Status TransportGroup::flush(Channel* head, std::uint32_t timeout_ms) {
  if (head->more_.empty()) return head->flush(timeout_ms);
  const Channel::Inside inside(*head);
  const std::int64_t deadline = os::deadline_of(timeout_ms);
  if (head->redundant_) {
    const Status status = head->check_open(false);
    return status != LWMQ_OK ? status : head->after_drain(wait_drained(head, deadline, false));
  }
  return all(head, [&](Channel& channel) { return channel.flush(rest_of(timeout_ms, deadline)); });
}

// Of redundant transports: until one way has brought everything. One that was cut since the last time may
// have lost what another still has: where there is none that was not, until all that have a peer are drained.
// Where the filters of one drop, the others have shipped everything, too.
Status TransportGroup::wait_drained(Channel* head, std::int64_t deadline, bool also_read) noexcept {
  for (;;) {
    const std::uint32_t seen = head->changes_.load(std::memory_order_acquire);  // sync: change
    std::uint32_t ways = 0;
    std::uint32_t drained = 0;
    bool one_has_all = false;
    bool leaky_has_all = false;
    bool queued = false;
    bool queued_for_peer = false;
    const Status status = all(head, [&](Channel& channel) -> Status {
      const bool holds = channel.scheduler_.message_count() > 0;
      queued = queued || holds;
      if (one_has_all || channel.attached_.load(std::memory_order_acquire) == nullptr) return LWMQ_OK;
      queued_for_peer = queued_for_peer || holds;
      const std::int64_t slice = std::min(deadline, os::now_ns() + kWaySliceNs);
      const Status one = channel.wait_drained(slice, also_read);
      if (one == LWMQ_E_INTERRUPTED) return one;
      if (channel.attached_.load(std::memory_order_acquire) == nullptr) return LWMQ_OK;  // just now
      ++ways;
      if (one != LWMQ_OK) return LWMQ_OK;
      ++drained;
      if (channel.cuts_.load(std::memory_order_relaxed) == channel.cuts_seen_)
        (channel.has_dropped() ? leaky_has_all : one_has_all) = true;
      return LWMQ_OK;
    });
    if (status != LWMQ_OK) return status;
    if (one_has_all || (leaky_has_all && !queued_for_peer) || (drained == ways && (ways > 0 || !queued))) {
      each(head,
           [](Channel& channel) { channel.cuts_seen_ = channel.cuts_.load(std::memory_order_relaxed); });
      return LWMQ_OK;
    }
    if (os::now_ns() >= deadline) return LWMQ_E_TIMED_OUT;
    if (ways > 0) continue;
    const Status waited = os::wait_for_change(seen, deadline, head->changes_);
    if (waited != LWMQ_OK) return waited;
  }
}

// ---- Receiving --------------------------------------------------------------------------------------

// The drain comes before every look: what rings behind it is for the next one.
bool TransportGroup::arm_all(Channel* head) {
  head->descriptor_.load(std::memory_order_relaxed)->drain();
  bool armed = true;
  each(head, [&](Channel& channel) {
    channel.landing_.take();
    armed = channel.arm_transport() && armed;
    channel.landing_.release();
  });
  if (!armed) head->ring();  // the drain has taken what was for others that poll
  return armed && head->phase_.load() == Channel::Phase::kOpen;
}

// What a receive from one of them has answered is no news: it is empty, or closed with all of them.
bool TransportGroup::has_none(const Channel& channel, Status status) noexcept {
  return status == LWMQ_E_EMPTY || (status != LWMQ_OK && channel.phase_.load() != Channel::Phase::kOpen);
}

Status TransportGroup::take_in_turns(Channel* head, How how, Messages& into) {
  const std::uint32_t timeout_ms = how.timeout_ms;
  const std::size_t count = 1 + head->more_.size();
  const Channel::Inside inside(*head);
  std::int64_t deadline = 0;
  for (;;) {
    Status status = head->check_open(false);
    if (status != LWMQ_OK) return status;
    const std::size_t first = head->turn_.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t place = (first + i) % count;
      Channel* channel = at(head, place);
      status = channel->take({0, WhenEmpty::kLeave}, into);
      if (has_none(*channel, status)) continue;
      head->turn_.store(place + 1, std::memory_order_relaxed);
      return status;
    }
    if (timeout_ms != 0 && deadline == 0) deadline = os::deadline_of(timeout_ms);
    if (!arm_all(head)) continue;
    const std::uint32_t left = rest_of(timeout_ms, deadline);
    if (left == 0) return timeout_ms == 0 ? LWMQ_E_EMPTY : LWMQ_E_TIMED_OUT;
    status = head->descriptor_.load(std::memory_order_relaxed)->wait(std::min(left, os::kWaitSliceMs));
    if (status != LWMQ_OK) return status;
  }
}

// Takes what comes next over a way that holds nothing: into the merge, or past it where the ways of its peer
// are not redundant.
TransportGroup::Pulled TransportGroup::pull(Channel* head, std::size_t place, std::int64_t now_ns,
                                            Messages& into, bool* out_short) {
  Channel* way = at(head, place);
  if (way->end_.status() != LWMQ_OK) return Pulled::kNoMore;  // before that was told
  // Before the look: when it has lost its peer, what that had sent is there.
  const bool may_bring = way->attached_.load(std::memory_order_acquire) != nullptr;
  Message* message = nullptr;
  Messages one(&message, 1);
  const Status status = way->take({0, WhenEmpty::kLeave}, one);
  if (status == LWMQ_E_NO_MEMORY) {
    *out_short = true;  // what has come waits
    return Pulled::kNothingYet;
  }
  if (has_none(*way, status)) return may_bring ? Pulled::kNothingYet : Pulled::kNoMore;
  if (status != LWMQ_OK) {
    way->end_.keep(status);
  } else if (message->is_numbered()) {
    head->merge_->put(place, message, now_ns);
  } else {
    into.add(message);
  }
  return Pulled::kSomething;
}

// Of redundant transports, in the order of the numbers.
Status TransportGroup::take_merged(Channel* head, How how, Messages& into) {
  const std::uint32_t timeout_ms = how.timeout_ms;
  reliability::Merge& merge = *head->merge_;
  const std::size_t ways = 1 + head->more_.size();
  const Channel::Inside inside(*head);
  std::int64_t deadline = 0;
  for (;;) {
    Status status = head->check_open(false);
    if (status != LWMQ_OK) return status;
    std::unique_lock lock(merge.receiving);
    const std::int64_t now_ns = os::now_ns();
    bool is_short = false;  // of memory
    bool moved = true;
    while (moved && into.has_room()) {
      moved = false;
      std::uint64_t sources = 0;  // ways that may bring more
      for (std::size_t place = 0; place < ways; ++place) {
        const bool looks = !merge.holds(place) && into.has_room();
        const Pulled pulled = looks ? pull(head, place, now_ns, into, &is_short) : Pulled::kNothingYet;
        if (pulled == Pulled::kSomething) moved = true;
        if (pulled != Pulled::kNoMore) sources |= std::uint64_t{1} << place;
      }
      while (into.has_room()) {
        Message* message = merge.take(sources, now_ns);
        if (message == nullptr) break;
        into.add(message);
        moved = true;
      }
    }
    if (into.count() > 0) return LWMQ_OK;
    if (is_short || merge.is_short()) return fail_short_of_memory();
    const std::int64_t until = merge.holds_until();
    for (std::size_t place = 0; place < ways && until == INT64_MAX; ++place) {
      Channel& way = *at(head, place);
      if (way.end_.status() == LWMQ_OK) continue;
      status = way.end_.tell();
      way.end_.forget();
      return status;
    }
    lock.unlock();
    if (timeout_ms != 0 && deadline == 0) deadline = os::deadline_of(timeout_ms);
    if (!arm_all(head)) continue;
    const std::uint32_t left = rest_of(timeout_ms, deadline);
    if (until != INT64_MAX) {  // for those who poll
      head->merge_until_.store(until, std::memory_order_relaxed);
      service::ServiceThread::attending().request(&head->attend_);
    }
    if (left == 0) return timeout_ms == 0 ? LWMQ_E_EMPTY : LWMQ_E_TIMED_OUT;
    status = head->descriptor_.load(std::memory_order_relaxed)
                 ->wait(std::min({left, os::kWaitSliceMs, os::ms_left(until)}));
    if (status != LWMQ_OK) return status;
  }
}

// From the one receive queue. The service thread lands for everybody who waits; who does not find a message
// looks itself at every transport first.
Status TransportGroup::take_queued(Channel* head, How how, Messages& into) {
  const std::uint32_t timeout_ms = how.timeout_ms;
  const std::int64_t deadline = timeout_ms == 0 ? 0 : os::deadline_of(timeout_ms);
  const Channel::Inside inside(*head);
  head->followers_.fetch_add(1);  // sync: follower
  Status status = LWMQ_OK;
  for (;;) {
    status = head->check_open(false);
    if (status != LWMQ_OK) break;
    const std::uint32_t seen = head->changes_.load(std::memory_order_acquire);  // sync: change
    if (head->queue_->is_bounded() || head->queue_->empty()) {
      if (timeout_ms == 0) head->descriptor_.load(std::memory_order_relaxed)->drain();
      each(head, [&](Channel& channel) {
        std::int64_t again = channel.land_waiting(0);
        for (int i = 0; again == 0 && i < kLandingsMax; ++i) again = channel.land_waiting(0);
        if (again != service::kNever) service::ServiceThread::attending().request(&channel.attend_);
        channel.report_connect_failure();
      });
    }
    status = head->queue_->take(into);
    if (status != LWMQ_E_EMPTY) break;
    if (timeout_ms == 0) break;
    status = os::wait_for_change(seen, deadline, head->changes_);
    if (status != LWMQ_OK) break;
  }
  head->followers_.fetch_sub(1, std::memory_order_relaxed);
  if (!head->queue_->empty()) head->ring();
  return status;
}

// ---- The rest ---------------------------------------------------------------------------------------

Status TransportGroup::query(Channel* head, lwmq_channel_statistics* out_statistics) {
  Status status = head->query(out_statistics);
  for (Channel* channel : head->more_) {
    lwmq_channel_statistics one{};
    if (status == LWMQ_OK) status = channel->query(&one);
    if (status != LWMQ_OK) return status;
    lwmq_channel_statistics& all = *out_statistics;
    all.connected = head->redundant_ ? all.connected | one.connected : all.connected & one.connected;
    all.messages_shipped += one.messages_shipped;
    all.messages_received += one.messages_received;
    all.messages_lost += one.messages_lost;
    all.buffers_shipped += one.buffers_shipped;
    all.shipped_full += one.shipped_full;
    all.shipped_idle += one.shipped_idle;
    all.bytes_shipped += one.bytes_shipped;
    all.bytes_received += one.bytes_received;
    all.messages_passed += one.messages_passed;
    all.peers_lost += one.peers_lost;
    all.buffers_free += one.buffers_free;
    all.clients_refused += one.clients_refused;
    all.messages_unread += one.messages_unread;
  }
  if (status == LWMQ_OK && head->redundant_) {
    out_statistics->duplicates_dropped = head->merge_->duplicates();
    out_statistics->messages_received -= head->merge_->duplicates();
  }
  return status;
}

Status TransportGroup::find(Channel* head, std::uint32_t transport, Channel** out_channel) {
  if (transport > head->more_.size()) {
    return fail(LWMQ_E_INVALID, "there is no transport %u; the channel has %zu, from 0 on (%s)", transport,
                head->more_.size() + 1, head->address_.c_str());
  }
  *out_channel = transport == 0 ? head : head->more_[transport - 1];
  return LWMQ_OK;
}

Status TransportGroup::peer(Channel* head, std::uint32_t transport, lwmq_peer* out_peer) {
  Channel* channel = nullptr;
  const Status status = find(head, transport, &channel);
  return status != LWMQ_OK ? status : channel->peer(out_peer);
}

Status TransportGroup::wait_peer(Channel* head, std::uint32_t transport, std::uint32_t timeout_ms,
                                 lwmq_peer* peer) {
  const Channel::Inside inside(*head);
  Channel* channel = nullptr;
  const Status status = find(head, transport, &channel);
  return status != LWMQ_OK ? status : channel->wait_peer(timeout_ms, peer);
}

Status TransportGroup::close(Channel* head, std::uint32_t linger_ms) {
  if (head->more_.empty() || os::forked()) return head->close(linger_ms);
  const bool was_opened = head->phase_.load() != Channel::Phase::kCreated;
  const std::int64_t began_ns = os::now_ns();
  const std::int64_t deadline = os::deadline_of(was_opened ? linger_ms : 0);  // else nothing is ever shipped
  Failure outcome;
  // All at once: what is posted while one lingers would reach the peers of the others alone.
  each(head, [](Channel& channel) { channel.begin_close(); });
  // None is closed before all have lingered: what a signal ends may be repeated, as if it had not begun.
  const Status lingered = head->redundant_ ? wait_drained(head, deadline, true)
                                           : all(head, [deadline](Channel& channel) -> Status {
                                               const Status one = channel.wait_drained(deadline, true);
                                               return one == LWMQ_E_INTERRUPTED ? one : LWMQ_OK;
                                             });
  if (lingered == LWMQ_E_INTERRUPTED) {
    head->lingered_ns_ += os::now_ns() - began_ns;
    each(head, [](Channel& one) { one.reopen(); });
    return lingered;
  }
  // The head last: the others speak to it.
  for (std::size_t i = 0; i <= head->more_.size(); ++i) {
    Channel* channel = i < head->more_.size() ? head->more_[i] : head;
    const Status status = channel->close(0, linger_ms);
    if (status == LWMQ_OK) continue;
    const bool is_first = outcome.status() == LWMQ_OK;
    if (!is_first) fail(outcome.status(), "%s; %s", outcome.text(), last_error());
    outcome.keep(is_first ? status : outcome.status());
  }
  const bool is_whole = head->redundant_ && lingered == LWMQ_OK;
  return is_whole ? LWMQ_OK : outcome.tell();
}

void TransportGroup::destroy(Channel* head) {
  if (!os::forked()) {
    head->notify(nullptr, 0, nullptr);
    Selector::forget_everywhere(head);
    Requests::forget_everywhere(head);
    for (const auto& queue : head->queues_) Router::forget_everywhere(queue.get());
  }
  Channel* more[kTransportsMax];
  Channel** const end = std::copy(head->more_.begin(), head->more_.end(), more);
  each(head, [](Channel& channel) { channel.begin_close(); });
  std::for_each(more, end, [](Channel* channel) { channel->close(0); });
  // They speak to the head until they are closed.
  Channel::destroy(head);
  if (os::forked()) return;
  std::for_each(more, end, Channel::destroy);
}

}  // namespace lwmq::channel
