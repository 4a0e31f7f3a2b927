// Making and opening a channel; its send queues; what is asked of it.
#include "channel/channel.h"

#include <algorithm>
#include <cinttypes>
#include <new>

#include "os/deadline.h"
#include "os/identity.h"

namespace lwmq::channel {
namespace {

constexpr std::uint32_t kTransportsMax = 64;
static_assert(kTransportsMax <= conversation::ReceiveQueue::kPlacesMax &&
              kTransportsMax <= reliability::Merge::kWaysMax);

}  // namespace

Channel::Channel(const conversation::Settings& settings, const char* name)
    : first_(settings, name, shared_, 0) {}

Status Channel::make(const conversation::Settings& settings, std::uint64_t client, Channel** out_channel) {
  try {
    *out_channel = new Channel(settings, client == 0 ? "" : std::to_string(client).c_str());
    return LWMQ_OK;
  } catch (const std::bad_alloc&) {
    return fail(LWMQ_E_NO_MEMORY, "no memory for a channel (%s)", settings.address.c_str());
  }
}

Status Channel::create(const char* address, const lwmq_channel_options& given, Channel** out_channel) {
  conversation::Settings settings;
  const Status status = conversation::read_settings(address, given, &settings);
  if (status != LWMQ_OK) return status;
  static std::atomic<std::uint32_t> channels{0};
  settings.transport.channel = channels.fetch_add(1, std::memory_order_relaxed) + 1;
  return make(settings, 0, out_channel);
}

Status Channel::accept(const conversation::Settings& settings, lwmq_tli_transport* transport,
                       std::uint64_t client, Channel** out_channel) {
  Channel* made = nullptr;
  Status status = make(settings, client, &made);
  if (status != LWMQ_OK) {
    settings.provider->transport->close(transport, 0, 0);
    return status;
  }
  status = made->first_.accept(transport);
  if (status == LWMQ_OK) {
    *out_channel = made;
  } else {
    delete made;
  }
  return status;
}

// ---- Further transports -----------------------------------------------------------------------------

// Whether the channel, and what it has by now, allows one more transport.
Status Channel::check_transport(const char* address, const lwmq_transport_options& options) const {
  const char* first = first_.address().c_str();
  if (os::forked() || first_.phase() >= Phase::kClosing) return first_.refuse_phase();
  if (first_.was_opened())
    return fail(LWMQ_E_INVALID, "transports are added before the channel is opened (%s)", first);
  if (first_.is_raw())
    return fail(LWMQ_E_INVALID, "a raw channel has one transport: its buffers are that transport's (%s)",
                first);
  const bool redundant = options.redundant != 0;
  if (shared_.several && redundant != shared_.redundant) {
    return fail(LWMQ_E_INVALID, "%s: %s; all transports of a channel are redundant, or none is (%s)", address,
                redundant ? "redundant beside others that are not" : "not redundant beside others that are",
                first);
  }
  if (redundant && first_.receive_queue() != nullptr) {
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
  if (wanted != 0 && wanted != first_.options().buffer_bytes) {
    return fail(LWMQ_E_INVALID,
                "%s: buffers of %" PRIu64 " bytes beside those of %" PRIu64
                " at %s; the transports of a channel have one size of buffers, which is its largest message",
                address, wanted, first_.options().buffer_bytes, first);
  }
  return LWMQ_OK;
}

Status Channel::add_transport(const char* address, const lwmq_transport_options& options) {
  Status status = check_transport(address, options);
  if (status != LWMQ_OK) return status;
  lwmq_channel_options as_first{};
  as_first.size = sizeof as_first;
  as_first.buffer_bytes = first_.options().buffer_bytes;
  as_first.buffers_send = options.buffers_send;
  as_first.buffers_receive = options.buffers_receive;
  as_first.retry_ms = options.retry_ms;
  as_first.secure_erase = first_.erases() ? 1 : 0;  // the same content, whatever it travels over
  std::int32_t fd = -1;
  status = first_.descriptor(&fd);
  if (status != LWMQ_OK) return status;
  conversation::Settings settings;
  status = conversation::read_settings(address, as_first, &settings);
  if (status != LWMQ_OK) return status;
  if (first_.is_one_way() || settings.one_way) {
    return fail(LWMQ_E_UNSUPPORTED, "%s: a further transport where one of them carries one way alone (%s)",
                address, this->address().c_str());
  }
  settings.transport.channel = first_.options().channel;
  more_.reserve(count());
  auto made = std::make_unique<Conversation>(settings, "", shared_, count());
  made->join(first_);
  if (first_.receive_queue() != nullptr) first_.receive_queue()->tell_apart(count() + 1);
  if (options.redundant != 0) {
    if (!shared_.redundant) prepare_redundancy();
    way_ends_.resize(count() + 1);
    made->keep_numbers();
  }
  add_siblings(*made);
  // Nothing fails from here on.
  more_.push_back(std::move(made));
  shared_.several = true;
  shared_.redundant = options.redundant != 0;
  if (shared_.redundant) first_.keep_numbers();
  return LWMQ_OK;
}

// With the first transport that is redundant to the first one: what the channel needs from then on.
void Channel::prepare_redundancy() {
  shared_.merge = std::make_unique<reliability::Merge>();
  for (const auto& queue : first_.queues())
    static_cast<ChannelQueue&>(*queue).numbering = std::make_unique<reliability::Numbering>();
}

// Each queue of the channel gets a sibling in a further conversation.
void Channel::add_siblings(Conversation& conversation) {
  std::vector<ConversationQueue*> siblings;
  for (const auto& queue : first_.queues()) {
    lwmq_send_queue_options same{};
    same.size = sizeof same;
    same.kind = queue->kind();
    same.priority = queue->priority();
    same.capacity = queue->capacity();
    auto made = std::make_unique<ConversationQueue>(&conversation, same);
    siblings.push_back(made.get());
    conversation.add(std::move(made));
  }
  for (std::size_t i = 0; i < siblings.size(); ++i) first_.queues()[i]->last_sibling().sibling = siblings[i];
}

// ---- Send queues ------------------------------------------------------------------------------------

Status Channel::add_send_queue(const lwmq_send_queue_options& options, ChannelQueue** out_queue) {
  const Status status = first_.check_queue(options);
  if (status != LWMQ_OK) return status;
  auto made = std::make_unique<ChannelQueue>(this, &first_, options);
  if (shared_.redundant) made->numbering = std::make_unique<reliability::Numbering>();
  ChannelQueue* queue = made.get();
  first_.add(std::move(made));
  for (const auto& conversation : more_) {
    auto sibling = std::make_unique<ConversationQueue>(conversation.get(), options);
    ConversationQueue* const added = sibling.get();
    conversation->add(std::move(sibling));
    queue->last_sibling().sibling = added;
  }
  *out_queue = queue;
  return LWMQ_OK;
}

Status Channel::common_queue(ChannelQueue** out_queue) {
  ChannelQueue* known = common_queue_.load(std::memory_order_acquire);  // sync: common
  if (known != nullptr && first_.phase() < Phase::kClosing && !os::forked()) {
    *out_queue = known;
    return LWMQ_OK;
  }
  lwmq_send_queue_options options{};
  options.size = sizeof options;
  options.kind = LWMQ_QUEUE_MULTI_UNBOUNDED;
  ChannelQueue* made = nullptr;
  const Status status = add_send_queue(options, &made);  // refuses a closed channel
  if (status != LWMQ_OK) return status;
  // If several threads get here at once, the queues of all but one stay unused.
  *out_queue = common_queue_.compare_exchange_strong(known, made) ? made : known;  // sync: common
  return LWMQ_OK;
}

Status Channel::set_weights(const std::uint32_t* weights, std::uint32_t count) noexcept {
  return all([&](Conversation& one) { return one.set_weights(weights, count); });
}

// ---- Opening ----------------------------------------------------------------------------------------

Status Channel::open(std::int32_t role) {
  const Status status = all([role](Conversation& one) { return one.open(role); });
  if (status == LWMQ_OK || !shared_.several) return status;
  Failure failure;
  failure.keep(status);
  each([](Conversation& one) { one.close(0); });
  return failure.tell();
}

Status Channel::wait_connected(std::uint32_t timeout_ms) {
  const Inside inside(*this);
  const std::int64_t deadline = os::deadline_of(timeout_ms);
  forget_error();
  if (shared_.redundant) return wait_for_a_way(deadline);
  return all(
      [&](Conversation& one) { return one.wait_connected(timeout_ms == 0 ? 0 : os::ms_left(deadline)); });
}

// Until one of redundant transports has a peer.
Status Channel::wait_for_a_way(std::int64_t deadline) {
  for (;;) {
    const std::uint32_t seen = shared_.changes.load(std::memory_order_acquire);  // sync: change
    if (first_.phase() == Phase::kClosed) return first_.refuse_phase();
    lwmq_channel_statistics now{};
    now.size = sizeof now;
    Status status = query(&now);  // also notices peers that are gone
    if (status != LWMQ_OK || now.connected != 0) return status;
    status = all([](Conversation& one) { return one.connect_failure(); });
    if (status == LWMQ_OK) status = os::wait_for_change(seen, deadline, shared_.changes);
    if (status != LWMQ_OK) return status;
  }
}

// ---- Asking -----------------------------------------------------------------------------------------

bool Channel::has_peer() const noexcept {
  return first_.has_peer() ||
         std::any_of(more_.begin(), more_.end(), [](const auto& one) { return one->has_peer(); });
}

Status Channel::query(lwmq_channel_statistics* out_statistics) {
  Status status = first_.query(out_statistics);
  for (const auto& conversation : more_) {
    lwmq_channel_statistics one{};
    if (status == LWMQ_OK) status = conversation->query(&one);
    if (status != LWMQ_OK) return status;
    lwmq_channel_statistics& all = *out_statistics;
    all.connected = shared_.redundant ? all.connected | one.connected : all.connected & one.connected;
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
  if (status == LWMQ_OK && shared_.redundant) {
    out_statistics->duplicates_dropped = shared_.merge->duplicates();
    out_statistics->messages_received -= shared_.merge->duplicates();
  }
  return status;
}

Status Channel::find(std::uint32_t transport, Conversation** out_conversation) {
  if (transport >= count()) {
    return fail(LWMQ_E_INVALID, "there is no transport %u; the channel has %zu, from 0 on (%s)", transport,
                count(), address().c_str());
  }
  *out_conversation = &at(transport);
  return LWMQ_OK;
}

Status Channel::peer(std::uint32_t transport, lwmq_peer* out_peer) {
  Conversation* one = nullptr;
  const Status status = find(transport, &one);
  return status != LWMQ_OK ? status : one->peer(out_peer);
}

const char* Channel::bound_address(std::uint32_t transport) {
  Conversation* one = nullptr;
  return find(transport, &one) == LWMQ_OK ? one->bound_address() : nullptr;
}

Status Channel::wait_peer(std::uint32_t transport, std::uint32_t timeout_ms, lwmq_peer* peer) {
  const Inside inside(*this);
  Conversation* one = nullptr;
  const Status status = find(transport, &one);
  return status != LWMQ_OK ? status : one->wait_peer(timeout_ms, peer);
}

}  // namespace lwmq::channel
