#include "channel/channel.h"

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "message/external.h"
#include "os/clock.h"
#include "os/deadline.h"
#include "os/identity.h"

namespace lwmq::channel {

using conversation::ReceiveQueue;
using conversation::WhenEmpty;

namespace {

constexpr std::uint32_t kTransportsMax = 64;
static_assert(kTransportsMax <= ReceiveQueue::kPlacesMax && kTransportsMax <= reliability::Merge::kWaysMax);
constexpr int kLandingsMax = 256;  // of what waits in one transport, before a receive takes some of it
constexpr std::int64_t kWaySliceNs =
    10 * os::kMillisecond;  // for one of redundant transports, before the next is asked
constexpr std::int64_t kLeavingPauseNs = 50'000;

// What is left of a time that several calls share.
std::uint32_t rest_of(std::uint32_t timeout_ms, std::int64_t deadline) noexcept {
  return timeout_ms == 0 ? 0 : os::ms_left(deadline);
}

}  // namespace

// ---- Making -----------------------------------------------------------------------------------------

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
  const Status status = conversation::read_settings(address, given, &settings);
  if (status != LWMQ_OK) return status;
  static std::atomic<std::uint32_t> channels{0};
  settings.transport.channel = channels.fetch_add(1, std::memory_order_relaxed) + 1;
  return make(settings, 0, out_channel);
}

Status Channel::accept(const Settings& settings, lwmq_tli_transport* transport, std::uint64_t client,
                       Channel** out_channel) {
  Channel* made = nullptr;
  Status status = make(settings, client, &made);
  if (status == LWMQ_OK) status = made->first_.accept(transport);
  if (status == LWMQ_OK) {
    *out_channel = made;
    return LWMQ_OK;
  }
  delete made;
  settings.provider->transport->close(transport, 0, 0);
  return status;
}

void Channel::destroy(Channel* channel) {
  if (os::forked()) return;  // its threads and its memory are the parent's: the child forgets it
  channel->close(0);
  while (channel->shared_.callers.load() != 0) {  // sync: caller; they were woken
    const timespec pause{0, kLeavingPauseNs};
    nanosleep(&pause, nullptr);
  }
  delete channel;
}

// Whether a transport with these options can be one more.
Status Channel::check_further(const char* address, const lwmq_transport_options& options) const {
  const char* first = first_.address().c_str();
  if (!first_.is_usable()) return first_.refuse_phase();
  if (!first_.is_created())
    return fail(LWMQ_E_INVALID, "transports are added before the channel is opened (%s)", first);
  if (first_.settings().raw)
    return fail(LWMQ_E_INVALID, "a raw channel has one transport: its buffers are that transport's (%s)",
                first);
  const bool redundant = options.redundant != 0;
  if (!more_.empty() && redundant != is_redundant()) {
    return fail(LWMQ_E_INVALID, "%s: %s; all transports of a channel are redundant, or none is (%s)", address,
                redundant ? "redundant beside others that are not" : "not redundant beside others that are",
                first);
  }
  if (redundant && shared_.queue != nullptr) {
    return fail(LWMQ_E_UNSUPPORTED,
                "%s: redundant transports beside a receive queue for several threads: one thread makes one "
                "stream of what comes twice; take the mono receive queue (%s)",
                address, first);
  }
  if (first_.posted() != 0)
    return fail(
        LWMQ_E_INVALID,
        "%s: transports are added before the first post, or their peers would miss what was posted (%s)",
        address, first);
  if (count() >= kTransportsMax)
    return fail(LWMQ_E_INVALID, "a channel has at most %u transports (%s)", kTransportsMax, first);
  conversation::AddressOptions said;
  const Status status = conversation::read_address_options(address, &said);
  if (status != LWMQ_OK) return status;
  const std::uint64_t wanted = options.buffer_bytes != 0 ? options.buffer_bytes : said.buffer_bytes;
  if (wanted != 0 && wanted != first_.settings().transport.buffer_bytes) {
    return fail(LWMQ_E_INVALID,
                "%s: buffers of %" PRIu64 " bytes beside those of %" PRIu64
                " at %s; the transports of a channel have one size of buffers, which is its largest message",
                address, wanted, first_.settings().transport.buffer_bytes, first);
  }
  return LWMQ_OK;
}

Status Channel::add_transport(const char* address, const lwmq_transport_options& options) {
  Status status = check_further(address, options);
  if (status != LWMQ_OK) return status;
  lwmq_channel_options as_first{};
  as_first.size = sizeof as_first;
  as_first.buffer_bytes = first_.settings().transport.buffer_bytes;
  as_first.buffers_send = options.buffers_send;
  as_first.buffers_receive = options.buffers_receive;
  as_first.retry_ms = options.retry_ms;
  as_first.secure_erase = first_.erases() ? 1 : 0;  // the same content, whatever it travels over
  std::int32_t fd = -1;
  status = descriptor(&fd);
  Settings settings;
  if (status == LWMQ_OK) status = conversation::read_settings(address, as_first, &settings);
  if (status != LWMQ_OK) return status;
  if (first_.settings().one_way || settings.one_way) {
    return fail(LWMQ_E_UNSUPPORTED, "%s: a further transport where one of them carries one way alone (%s)",
                address, first_.address().c_str());
  }
  settings.transport.channel = first_.settings().transport.channel;
  // Memory may be short: nothing that others see changes before all is made.
  const std::lock_guard lock(queues_mutex_);
  std::vector<std::unique_ptr<ChannelQueue>> replicas;
  auto made = std::make_unique<Conversation>(settings, shared_, count(), "");
  for (const auto& queue : queues_) {
    lwmq_send_queue_options same{};
    same.kind = queue->kind();
    same.priority = queue->priority();
    same.capacity = queue->capacity();
    replicas.push_back(std::make_unique<ChannelQueue>(*this, *made, same));
    made->prepare(*replicas.back());
    made->add(*replicas.back());
  }
  const std::size_t places = count() + 1;
  const bool redundant = options.redundant != 0;
  std::unique_ptr<reliability::Merge> merge;
  std::vector<std::unique_ptr<reliability::Numbering>> numberings;
  if (redundant) ways_.resize(places);
  if (redundant && !is_redundant()) {
    merge = std::make_unique<reliability::Merge>();
    numberings.resize(queues_.size());
    for (auto& numbering : numberings) numbering = std::make_unique<reliability::Numbering>();
  }
  if (shared_.queue != nullptr) shared_.queue->tell_apart(places);
  more_.reserve(more_.size() + 1);
  shared_.peers.add_place(settings.address);
  // Nothing fails from here on.
  made->share_home(first_);
  if (redundant) made->keep_numbers();
  more_.push_back(std::move(made));
  shared_.is_alone = false;
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    std::unique_ptr<ChannelQueue>* end = &queues_[i]->replica;
    while (*end != nullptr) end = &(*end)->replica;
    *end = std::move(replicas[i]);
  }
  if (merge == nullptr) return LWMQ_OK;
  first_.keep_numbers();
  for (std::size_t i = 0; i < numberings.size(); ++i) queues_[i]->numbering = std::move(numberings[i]);
  merge_ = std::move(merge);
  shared_.merge = merge_.get();
  return LWMQ_OK;
}

Status Channel::add_send_queue(const lwmq_send_queue_options& options, ChannelQueue** out_queue) {
  lwmq_send_queue_options said = options;
  if (said.priority == 0) said.priority = LWMQ_PRIORITY_NORMAL;
  const Status status = all([&](Conversation& one) { return one.check_adding(said); });
  if (status != LWMQ_OK) return status;
  // Memory may be short: nothing that others see changes before all is made.
  const message::HeldReleases held;  // of what is shipped meanwhile: their call-backs may add a queue
  const std::lock_guard lock(queues_mutex_);
  std::unique_ptr<ChannelQueue> made;
  std::unique_ptr<ChannelQueue>* end = &made;
  each([&](Conversation& one) {
    *end = std::make_unique<ChannelQueue>(*this, one, said);
    one.prepare(**end);
    end = &(*end)->replica;
  });
  if (is_redundant()) made->numbering = std::make_unique<reliability::Numbering>();
  queues_.emplace_back();
  for (ChannelQueue* queue = made.get(); queue != nullptr; queue = queue->replica.get())
    queue->conversation->add(*queue);
  *out_queue = made.get();
  queues_.back() = std::move(made);
  return LWMQ_OK;
}

Status Channel::common_queue(ChannelQueue** out_queue) {
  ChannelQueue* known = common_queue_.load(std::memory_order_acquire);  // sync: common
  if (known != nullptr && first_.is_usable()) {
    *out_queue = known;
    return LWMQ_OK;
  }
  lwmq_send_queue_options options{};
  options.size = sizeof options;
  options.kind = LWMQ_QUEUE_MULTI_UNBOUNDED;
  ChannelQueue* made = nullptr;
  const Status status = add_send_queue(options, &made);  // refuses a closed channel
  if (status != LWMQ_OK) return status;
  // Of several threads that come first at once, the queues of all but one stay unused.
  *out_queue = common_queue_.compare_exchange_strong(known, made) ? made : known;  // sync: common
  return LWMQ_OK;
}

Status Channel::set_priority(ChannelQueue* queue, std::uint32_t priority) noexcept {
  Status status = LWMQ_OK;
  for (; queue != nullptr && status == LWMQ_OK; queue = queue->replica.get())
    status = queue->conversation->set_priority(queue, priority);
  return status;
}

Status Channel::set_weights(const std::uint32_t* weights, std::uint32_t count) noexcept {
  return all([&](Conversation& one) { return one.set_weights(weights, count); });
}

Status Channel::query_queue(const ChannelQueue* queue, lwmq_send_queue_statistics* out_statistics) {
  if (os::forked()) return queue->conversation->refuse_phase();
  const SendQueue::Counts counts = queue->counts();
  out_statistics->kind = queue->kind();
  out_statistics->priority = queue->priority();
  out_statistics->capacity = queue->capacity();
  out_statistics->posted = counts.posted;
  for (; queue != nullptr; queue = queue->replica.get()) {
    const SendQueue::Counts one = queue->counts();
    out_statistics->collected += one.collected;
    out_statistics->discarded += one.discarded;
    out_statistics->replaced += one.replaced;
    out_statistics->queued += one.queued;
  }
  return LWMQ_OK;
}

Status Channel::open(std::int32_t role) {
  if (more_.empty() || !first_.is_created()) return first_.open(role);
  const Status status = all([&](Conversation& one) { return one.open(role); });
  if (status == LWMQ_OK) return LWMQ_OK;
  Failure failure;
  failure.keep(status);
  close(0);
  return failure.tell();
}

Status Channel::wait_connected(std::uint32_t timeout_ms) {
  const Shared::Inside inside(shared_);
  const std::int64_t deadline = os::deadline_of(timeout_ms);
  for (;;) {
    const std::uint32_t seen = shared_.changes.load(std::memory_order_acquire);  // sync: change
    if (!first_.is_open()) return first_.refuse_phase();
    lwmq_channel_statistics now{};
    Status status = query(&now);  // also notices peers that are gone
    if (status != LWMQ_OK || now.connected != 0) return status;
    status = all([](Conversation& one) { return one.connect_failure(); });
    if (status == LWMQ_OK) status = os::wait_for_change(seen, deadline, shared_.changes);
    if (status != LWMQ_OK) return status;
  }
}

bool Channel::has_peer() const noexcept {
  return first_.has_peer() ||
         std::any_of(more_.begin(), more_.end(), [](const auto& one) { return one->has_peer(); });
}

// ---- Posting ----------------------------------------------------------------------------------------

Status Channel::post_to_each(ChannelQueue* queue, Message* message, std::uint64_t tag) noexcept {
  if (queue->numbering == nullptr) return lay_to_each(queue, message, tag);
  if (os::forked())
    return queue->conversation->refuse_phase();  // a parent's thread may hold the lock for ever
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

Status Channel::lay_to_each(ChannelQueue* queue, Message* message, std::uint64_t tag) noexcept {
  Message* references = nullptr;  // made first: a message reaches every transport, or none
  const auto drop = [&references] {
    while (references != nullptr) {
      Message* next = references->next;
      Message::destroy(references);
      references = next;
    }
  };
  for (ChannelQueue* replica = queue->replica.get(); replica != nullptr; replica = replica->replica.get()) {
    Message* reference = message->reference();
    if (reference == nullptr) {
      drop();
      return fail(LWMQ_E_NO_MEMORY, "no memory for a message (%s)", queue->conversation->address().c_str());
    }
    reference->next = references;
    references = reference;
  }
  const Status status = queue->conversation->post(queue, message, tag);
  if (status != LWMQ_OK) {
    drop();
    return status;
  }
  for (ChannelQueue* replica = queue->replica.get(); replica != nullptr; replica = replica->replica.get()) {
    Message* reference = references;
    references = reference->next;
    reference->next = nullptr;
    if (replica->conversation->post(replica, reference, tag) == LWMQ_OK) continue;
    Message::destroy(reference);  // no memory, or closed just now
    replica->conversation->count_lost();
  }
  return LWMQ_OK;
}

Status Channel::post_copy_to_each(ChannelQueue* queue, const void* data, std::uint64_t bytes) noexcept {
  Message* message = Message::copy_of(data, bytes);
  if (message == nullptr)
    return fail(LWMQ_E_NO_MEMORY, "no memory for a message of %" PRIu64 " bytes", bytes);
  const Status status = post_to_each(queue, message, 0);
  if (status != LWMQ_OK) Message::destroy(message);
  return status;
}

Status Channel::post_wait(ChannelQueue* queue, Message* message, std::uint64_t tag, std::uint32_t timeout_ms,
                          bool or_discard) noexcept {
  if (queue->replica == nullptr) [[likely]]
    return queue->conversation->post_wait(queue, message, tag, timeout_ms, or_discard);
  if (timeout_ms == 0 && or_discard) return post_to_each(queue, message, tag);
  return refuse_to_wait(*queue);
}

Status Channel::wait_room(ChannelQueue* queue, std::uint32_t timeout_ms) noexcept {
  return queue->replica == nullptr ? queue->conversation->wait_room(queue, timeout_ms)
                                   : refuse_to_wait(*queue);
}

Status Channel::refuse_to_wait(const ChannelQueue& queue) noexcept {
  return fail(
      LWMQ_E_UNSUPPORTED,
      "a message for several transports cannot wait for room: each has a queue of its own; post without "
      "a timeout, and the rule of the queue applies to each (%s)",
      queue.conversation->address().c_str());
}

Status Channel::post_many(ChannelQueue* queue, const lwmq_bytes* frames, std::uint64_t count,
                          std::uint64_t* out_posted) noexcept {
  if (queue->replica == nullptr) [[likely]]
    return queue->conversation->post_many(queue, frames, count, out_posted);
  *out_posted = 0;
  Status status = queue->conversation->admit_all(frames, count);
  for (; *out_posted < count && status == LWMQ_OK; *out_posted += status == LWMQ_OK)
    status = post_bytes(queue, frames[*out_posted].data, frames[*out_posted].bytes);
  return status;
}

Status Channel::post_messages(ChannelQueue* queue, Message** messages, std::uint64_t count,
                              std::uint64_t* out_posted) noexcept {
  if (queue->replica == nullptr) [[likely]]
    return queue->conversation->post_messages(queue, messages, count, out_posted);
  *out_posted = 0;
  Status status = queue->conversation->admit_all(queue, messages, count);
  for (; *out_posted < count && status == LWMQ_OK; *out_posted += status == LWMQ_OK) {
    Message*& message = messages[*out_posted];
    status = post_to_each(queue, message, 0);
    if (status == LWMQ_OK) message = nullptr;
  }
  return status;
}

Status Channel::flush(std::uint32_t timeout_ms) {
  const Shared::Inside inside(shared_);
  const std::int64_t deadline = os::deadline_of(timeout_ms);
  if (const Status status = first_.check_open(first_.settings().raw); status != LWMQ_OK) return status;
  if (is_redundant()) return first_.after_drain(wait_drained(deadline, false));
  return all([=](Conversation& one) { return one.after_drain(one.wait_drained(deadline, false)); });
}

// Of redundant transports: until one way has brought everything. One that was cut since the last time may
// have lost what another still has: where there is none that was not, until all that have a peer are drained.
// Where the filters of one drop, the others have shipped everything, too.
Status Channel::wait_drained(std::int64_t deadline, bool also_read) noexcept {
  for (;;) {
    const std::uint32_t seen = shared_.changes.load(std::memory_order_acquire);  // sync: change
    std::uint32_t with_peer = 0;
    std::uint32_t drained = 0;
    bool one_has_all = false;
    bool leaky_has_all = false;
    bool queued = false;
    bool queued_for_peer = false;
    for (std::size_t place = 0; place < count(); ++place) {
      Conversation& way = at(place);
      const bool holds = way.has_queued();
      queued = queued || holds;
      if (one_has_all || !way.has_peer()) continue;
      queued_for_peer = queued_for_peer || holds;
      const std::int64_t slice = std::min(deadline, os::now_ns() + kWaySliceNs);
      const Status status = way.wait_drained(slice, also_read);
      if (status == LWMQ_E_INTERRUPTED) return status;
      if (!way.has_peer()) continue;  // just now
      ++with_peer;
      if (status != LWMQ_OK) continue;
      ++drained;
      if (way.cuts() == ways_[place].cuts_seen) (way.has_dropped() ? leaky_has_all : one_has_all) = true;
    }
    if (one_has_all || (leaky_has_all && !queued_for_peer) ||
        (drained == with_peer && (with_peer > 0 || !queued))) {
      for (std::size_t place = 0; place < count(); ++place) ways_[place].cuts_seen = at(place).cuts();
      return LWMQ_OK;
    }
    if (os::now_ns() >= deadline) return LWMQ_E_TIMED_OUT;
    if (with_peer > 0) continue;
    const Status waited = os::wait_for_change(seen, deadline, shared_.changes);
    if (waited != LWMQ_OK) return waited;
  }
}

// ---- Receiving --------------------------------------------------------------------------------------

// The drain comes before every look: what rings behind it is for the next one.
bool Channel::arm_all() {
  shared_.descriptor.load(std::memory_order_relaxed)->drain();
  bool armed = true;
  each([&armed](Conversation& one) { armed = one.arm() && armed; });
  if (!armed) shared_.ring();  // the drain has taken what was for others that poll
  return armed && first_.is_open();
}

Status Channel::take_from_several(How how, Messages& into) {
  const Shared::Inside inside(shared_);
  if (shared_.queue != nullptr) return take_queued(how, into);
  std::int64_t deadline = 0;
  for (;;) {
    Status status = first_.check_open(false);
    if (status != LWMQ_OK) return status;
    std::int64_t until = INT64_MAX;  // when a look will show something by the mere passing of time
    status = is_redundant() ? look_merged(into, &until) : look_in_turns(into);
    if (status != LWMQ_E_EMPTY) return status;
    if (how.timeout_ms != 0 && deadline == 0) deadline = os::deadline_of(how.timeout_ms);
    if (!arm_all()) continue;
    if (until != INT64_MAX) {  // for those who poll
      shared_.due_ns.store(until, std::memory_order_relaxed);
      first_.ask_service();
    }
    const std::uint32_t left = rest_of(how.timeout_ms, deadline);
    if (left == 0) return how.timeout_ms == 0 ? LWMQ_E_EMPTY : LWMQ_E_TIMED_OUT;
    status = shared_.descriptor.load(std::memory_order_relaxed)
                 ->wait(std::min({left, os::kWaitSliceMs, os::ms_left(until)}));
    if (status != LWMQ_OK) return status;
  }
}

// What a take from one of them has answered is no news: it is empty, or closed with all of them.
bool Channel::has_none(const Conversation& conversation, Status status) noexcept {
  return status == LWMQ_E_EMPTY || (status != LWMQ_OK && !conversation.is_open());
}

Status Channel::look_in_turns(Messages& into) {
  const std::size_t first = turn_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < count(); ++i) {
    const std::size_t place = (first + i) % count();
    const Status status = at(place).take({0, WhenEmpty::kLeave}, into);
    if (has_none(at(place), status)) continue;
    turn_.store(place + 1, std::memory_order_relaxed);
    return status;
  }
  return LWMQ_E_EMPTY;
}

// Takes what comes next over a way that holds nothing: into the merge, or past it where the ways of its peer
// are not redundant.
Channel::Pulled Channel::pull(std::size_t place, std::int64_t now_ns, Messages& into, bool* out_short) {
  if (ways_[place].end.status() != LWMQ_OK) return Pulled::kNoMore;  // before that was told
  Conversation& way = at(place);
  // Before the look: when it has lost its peer, what that had sent is there.
  const bool may_bring = way.has_peer();
  Message* message = nullptr;
  Messages one(&message, 1);
  const Status status = way.take({0, WhenEmpty::kLeave}, one);
  if (status == LWMQ_E_NO_MEMORY) {
    *out_short = true;  // what has come waits
    return Pulled::kNothingYet;
  }
  if (has_none(way, status)) return may_bring ? Pulled::kNothingYet : Pulled::kNoMore;
  if (status != LWMQ_OK) {
    ways_[place].end.keep(status);
  } else if (message->is_numbered()) {
    merge_->put(place, message, now_ns);
  } else {
    into.add(message);
  }
  return Pulled::kSomething;
}

// In the order of the numbers.
Status Channel::look_merged(Messages& into, std::int64_t* out_until) {
  const std::lock_guard lock(merge_->receiving);
  const std::int64_t now_ns = os::now_ns();
  bool is_short = false;  // of memory
  bool moved = true;
  while (moved && into.has_room()) {
    moved = false;
    std::uint64_t sources = 0;  // ways that may bring more
    for (std::size_t place = 0; place < count(); ++place) {
      const bool looks = !merge_->holds(place) && into.has_room();
      const Pulled pulled = looks ? pull(place, now_ns, into, &is_short) : Pulled::kNothingYet;
      if (pulled == Pulled::kSomething) moved = true;
      if (pulled != Pulled::kNoMore) sources |= std::uint64_t{1} << place;
    }
    while (into.has_room()) {
      Message* message = merge_->take(sources, now_ns);
      if (message == nullptr) break;
      into.add(message);
      moved = true;
    }
  }
  if (into.count() > 0) return LWMQ_OK;
  if (is_short || merge_->is_short()) return conversation::fail_short_of_memory();
  *out_until = merge_->holds_until();
  if (*out_until != INT64_MAX) return LWMQ_E_EMPTY;
  const auto ended =
      std::find_if(ways_.begin(), ways_.end(), [](const Way& way) { return way.end.status() != LWMQ_OK; });
  if (ended == ways_.end()) return LWMQ_E_EMPTY;
  const Status status = ended->end.tell();
  ended->end.forget();
  return status;
}

// From the one receive queue. The service thread lands for everybody who waits; who does not find a message
// looks itself at every transport first.
Status Channel::take_queued(How how, Messages& into) {
  const std::int64_t deadline = how.timeout_ms == 0 ? 0 : os::deadline_of(how.timeout_ms);
  shared_.followers.fetch_add(1);  // sync: follower
  Status status = LWMQ_OK;
  for (;;) {
    status = first_.check_open(false);
    if (status != LWMQ_OK) break;
    const std::uint32_t seen = shared_.changes.load(std::memory_order_acquire);  // sync: change
    if (shared_.queue->is_bounded() || shared_.queue->empty()) {
      if (how.timeout_ms == 0) shared_.descriptor.load(std::memory_order_relaxed)->drain();
      each([](Conversation& one) {
        std::int64_t again = one.land_waiting(0);
        for (int i = 0; again == 0 && i < kLandingsMax; ++i) again = one.land_waiting(0);
        if (again != service::kNever) one.ask_service();
        one.report_connect_failure();
      });
    }
    status = shared_.queue->take(into);
    if (status != LWMQ_E_EMPTY || how.timeout_ms == 0) break;
    status = os::wait_for_change(seen, deadline, shared_.changes);
    if (status != LWMQ_OK) break;
  }
  shared_.followers.fetch_sub(1, std::memory_order_relaxed);
  if (!shared_.queue->empty()) shared_.ring();
  return status;
}

// ---- The rest ---------------------------------------------------------------------------------------

Status Channel::query(lwmq_channel_statistics* out_statistics) {
  *out_statistics = {};
  std::size_t connected = 0;
  const Status status = all([&](Conversation& one) {
    bool has_peer = false;
    const Status of_one = one.add_figures(out_statistics, &has_peer);
    connected += has_peer ? 1 : 0;
    return of_one;
  });
  if (status != LWMQ_OK) return status;
  out_statistics->connected = connected >= (is_redundant() ? 1 : count()) ? 1 : 0;
  if (is_redundant()) {
    out_statistics->duplicates_dropped = merge_->duplicates();
    out_statistics->messages_received -= merge_->duplicates();
  }
  return LWMQ_OK;
}

Status Channel::find(std::uint32_t transport, Conversation** out_conversation) {
  if (transport >= count()) {
    return fail(LWMQ_E_INVALID, "there is no transport %u; the channel has %zu, from 0 on (%s)", transport,
                count(), first_.address().c_str());
  }
  *out_conversation = &at(transport);
  return LWMQ_OK;
}

Status Channel::peer(std::uint32_t transport, lwmq_peer* out_peer) {
  Conversation* found = nullptr;
  const Status status = find(transport, &found);
  return status != LWMQ_OK ? status : found->peer(out_peer);
}

Status Channel::wait_peer(std::uint32_t transport, std::uint32_t timeout_ms, lwmq_peer* peer) {
  const Shared::Inside inside(shared_);
  Conversation* found = nullptr;
  const Status status = find(transport, &found);
  return status != LWMQ_OK ? status : found->wait_peer(timeout_ms, peer);
}

Status Channel::close(std::uint32_t linger_ms) {
  if (os::forked() || first_.is_closed()) return first_.refuse_phase();
  const bool was_opened = !first_.is_created();
  const std::int64_t began_ns = os::now_ns();
  const std::int64_t deadline = os::deadline_of(was_opened ? linger_ms : 0);  // else nothing is ever shipped
  // All at once: what is posted while one lingers would reach the peers of the others alone.
  each([](Conversation& one) { one.begin_close(); });
  // None is closed before all have lingered: what a signal ends may be repeated, as if it had not begun.
  std::uint64_t drained = 0;  // a bit per place
  Status lingered = is_redundant() ? wait_drained(deadline, true) : LWMQ_E_TIMED_OUT;
  for (std::size_t place = 0; place < count() && !is_redundant() && lingered != LWMQ_E_INTERRUPTED; ++place) {
    lingered = at(place).linger(deadline);
    if (lingered == LWMQ_OK) drained |= std::uint64_t{1} << place;
  }
  if (lingered == LWMQ_E_INTERRUPTED) {
    lingered_ns_ += os::now_ns() - began_ns;
    each([](Conversation& one) { one.reopen(); });
    return lingered;
  }
  const std::int64_t waited_ms = linger_ms + lingered_ns_ / os::kMillisecond;
  Status outcome = LWMQ_OK;
  char texts[1024] = "";
  // The first closes last: what all have is in its hands.
  for (std::size_t place = count(); place-- > 0;) {
    const bool has_ended = linger_ms == LWMQ_FOREVER || (drained >> place & 1) != 0;
    const Status status = at(place).close(has_ended, waited_ms);
    if (status == LWMQ_OK) continue;
    const std::size_t used = std::strlen(texts);
    std::snprintf(texts + used, sizeof texts - used, "%s%s", used == 0 ? "" : "; ", last_error());
    if (outcome == LWMQ_OK) outcome = status;
  }
  if (outcome == LWMQ_OK || (is_redundant() && lingered == LWMQ_OK)) return LWMQ_OK;
  return fail(outcome, "%s", texts);
}

}  // namespace lwmq::channel
