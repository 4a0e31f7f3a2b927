// Direct access to transport buffers: get, fill, send; receive, dispose. No messages, no queues.
//
// What a lwmq_buffer's token holds:
//   [0] [1]  the transport's own
//   [2]      which transport
//   [3]      the seal of its kind and data; 0 when the buffer is not the application's
#include <algorithm>
#include <optional>
#include <utility>

#include "conversation/conversation.h"
#include "os/deadline.h"
#include "os/identity.h"

namespace lwmq::conversation {

namespace {

constexpr std::uint64_t kSendBuffer = 0x73656e642d627566;
constexpr std::uint64_t kReceivedBuffer = 0x726563762d627566;
constexpr std::uint32_t kRoomSliceMs = 50;  // with the pump in hand: others who want it wait for us

lwmq_tli_transport* transport_of(const lwmq_buffer* buffer) noexcept {
  return reinterpret_cast<lwmq_tli_transport*>(static_cast<std::uintptr_t>(buffer->token[2]));
}

std::uint64_t seal(const lwmq_buffer& buffer, std::uint64_t kind) noexcept {
  return kind ^ reinterpret_cast<std::uintptr_t>(buffer.data);
}

// Behind its data, which is sealed.
void set_token(lwmq_buffer* buffer, const std::uint64_t (&token)[2], lwmq_tli_transport* transport,
               std::uint64_t kind) noexcept {
  buffer->token[0] = token[0];
  buffer->token[1] = token[1];
  buffer->token[2] = reinterpret_cast<std::uintptr_t>(transport);
  buffer->token[3] = seal(*buffer, kind);
}

Status say_gone(const std::string& address) noexcept {
  return fail(LWMQ_E_PEER_LOST, "the peer that this buffer was for has gone (%s)", address.c_str());
}

}  // namespace

Status Conversation::check_token(const lwmq_buffer* buffer, std::uint64_t kind) const noexcept {
  if (buffer->token[3] == seal(*buffer, kind)) return LWMQ_OK;
  return fail(LWMQ_E_INVALID, "this buffer is not one that was %s, its data where it was lent (%s)",
              kind == kSendBuffer ? "obtained and not yet sent" : "received and not yet disposed of",
              settings_.address.c_str());
}

// With the pump in hand.
void Conversation::lend_raw(const lwmq_tli_buffer& buffer, lwmq_tli_transport* transport,
                            lwmq_buffer* out_buffer) noexcept {
  ++raw_lent_;
  out_buffer->data = buffer.next;
  out_buffer->bytes = std::min(buffer.room, settings_.transport.buffer_bytes);
  set_token(out_buffer, buffer.token, transport, kSendBuffer);
}

Status Conversation::raw_get(std::uint32_t timeout_ms, lwmq_buffer* out_buffer) {
  if (is_open() && settings_.raw && !settings_.one_way && pump_.try_take()) [[likely]] {
    lwmq_tli_transport* transport = sender_.transport();
    lwmq_tli_buffer buffer;
    const bool lent = transport != nullptr && tli_->acquire(transport, &buffer) == LWMQ_OK;
    if (lent) [[likely]]
      lend_raw(buffer, transport, out_buffer);
    pump_.release();
    if (lent) [[likely]]
      return LWMQ_OK;
  }
  return raw_get_waiting(timeout_ms, out_buffer);
}

[[gnu::noinline]] Status Conversation::raw_get_waiting(std::uint32_t timeout_ms, lwmq_buffer* out_buffer) {
  if (const Status status = check_sends(role_); status != LWMQ_OK) return status;
  const std::int64_t deadline = timeout_ms == 0 ? 0 : os::deadline_of(timeout_ms);
  std::optional<Shared::Inside> inside;
  for (;;) {
    const std::uint32_t seen = shared_.changes.load(std::memory_order_acquire);  // sync: change
    Status status = check_open(true);
    if (status != LWMQ_OK) return status;
    pump_.take();
    lwmq_tli_transport* transport = sender_.transport();
    lwmq_tli_buffer buffer{};
    status = transport == nullptr ? LWMQ_E_EMPTY : tli_->acquire(transport, &buffer);
    if (status == LWMQ_OK) {
      lend_raw(buffer, transport, out_buffer);
      pump_.release();
      return LWMQ_OK;
    }
    const std::uint32_t left = timeout_ms == 0 ? 0 : os::ms_left(deadline);
    if (left > 0 && !inside) inside.emplace(shared_);
    if (status == LWMQ_E_FULL && left > 0) {
      status = tli_->wait(transport, LWMQ_TLI_WAIT_ROOM, std::min(left, kRoomSliceMs));
      if (status == LWMQ_E_TIMED_OUT) note_unread(transport);
      pump_.release();
      if (status == LWMQ_E_INTERRUPTED) return status;
      continue;
    }
    pump_.release();
    if (status != LWMQ_E_FULL && status != LWMQ_E_EMPTY) note_peer_gone();
    if (left == 0) return timeout_ms == 0 ? LWMQ_E_FULL : LWMQ_E_TIMED_OUT;
    status = connect_failure();
    if (status == LWMQ_OK) status = os::wait_for_change(seen, deadline, shared_.changes);
    if (status != LWMQ_OK) return status;
  }
}

// With the pump in hand, before `transport` is closed: what the application has of it stays writable.
void Conversation::keep_raw_lent(lwmq_tli_transport* transport) {
  if (raw_lent_ > 0) raw_kept_.push_back({transport, std::exchange(raw_lent_, 0)});
}

// With the pump in hand, behind keep_raw_lent: how many of them have not come back.
std::uint32_t Conversation::raw_lent_of(const lwmq_tli_transport* transport) const noexcept {
  const auto kept = std::find_if(raw_kept_.begin(), raw_kept_.end(),
                                 [transport](const Kept& one) { return one.transport == transport; });
  return kept == raw_kept_.end() ? 0 : kept->lent;
}

// With the pump in hand: the application's no more. LWMQ_E_PEER_LOST: its transport has ended, and it goes
// after that. LWMQ_E_INVALID: it is none of ours.
[[gnu::always_inline]] inline Status Conversation::take_back(lwmq_buffer* buffer,
                                                             lwmq_tli_buffer* out_buffer) {
  lwmq_tli_transport* const transport = transport_of(buffer);
  out_buffer->next = static_cast<std::uint8_t*>(buffer->data);
  out_buffer->room = settings_.transport.buffer_bytes;
  out_buffer->token[0] = buffer->token[0];
  out_buffer->token[1] = buffer->token[1];
  if (transport != sender_.transport() || raw_lent_ == 0) [[unlikely]]
    return take_back_late(buffer, out_buffer);
  buffer->token[3] = 0;
  --raw_lent_;
  return LWMQ_OK;
}

[[gnu::noinline]] Status Conversation::take_back_late(lwmq_buffer* buffer, lwmq_tli_buffer* tli_buffer) {
  lwmq_tli_transport* const transport = transport_of(buffer);
  const auto kept = std::find_if(raw_kept_.begin(), raw_kept_.end(),
                                 [transport](const Kept& one) { return one.transport == transport; });
  if (kept == raw_kept_.end())
    return fail(LWMQ_E_INVALID, "this buffer is none of those that are lent (%s)", settings_.address.c_str());
  buffer->token[3] = 0;
  if (--kept->lent == 0) raw_kept_.erase(kept);
  tli_->abandon(transport, tli_buffer);
  return say_gone(settings_.address);
}

Status Conversation::raw_send(lwmq_buffer* buffer) {
  Status status = check_open_or_ended(true);
  if (status == LWMQ_OK) status = check_token(buffer, kSendBuffer);
  if (status != LWMQ_OK) return status;
  if (buffer->bytes > settings_.transport.buffer_bytes) {
    return fail(LWMQ_E_TOO_BIG, "%" PRIu64 " bytes do not fit a buffer of %" PRIu64 " (%s)", buffer->bytes,
                settings_.transport.buffer_bytes, settings_.address.c_str());
  }
  lwmq_tli_buffer tli_buffer;
  pump_.take();
  status = take_back(buffer, &tli_buffer);
  if (status == LWMQ_OK) {
    status = sender_.ship_raw(&tli_buffer, buffer->bytes);
    if (status == LWMQ_E_CLOSED || status == LWMQ_E_PEER_LOST) {
      // It is taken: CLOSED speaks of our own close, which leaves a buffer the caller's.
      note_peer_gone();
      status = say_gone(settings_.address);
    }
  }
  if (status == LWMQ_E_PEER_LOST) messages_lost_.fetch_add(1, std::memory_order_relaxed);
  pump_.release();
  note_activity();
  return status;
}

// Also after the channel was closed, as what was received.
Status Conversation::raw_abandon(lwmq_buffer* buffer) {
  if (os::forked() || is_created() || !settings_.raw) return check_open(true);
  const Status status = check_token(buffer, kSendBuffer);
  if (status != LWMQ_OK) return status;
  lwmq_tli_buffer tli_buffer{};
  take_pump();  // before who waits for room, perhaps for this
  const Status taken = take_back(buffer, &tli_buffer);
  if (taken == LWMQ_OK) tli_->abandon(sender_.transport(), &tli_buffer);
  release_and_look();
  return taken == LWMQ_E_PEER_LOST ? LWMQ_OK : taken;
}

Status Conversation::raw_receive(std::uint32_t timeout_ms, lwmq_buffer* out_buffer) {
  const How how{timeout_ms};
  Buffer into(how);
  if (const Status status = take(how, into); status != LWMQ_OK) return status;
  const Landed& landed = into.landed();
  out_buffer->data = const_cast<std::uint8_t*>(landed.extent.data);
  out_buffer->bytes = landed.extent.bytes;
  set_token(out_buffer, landed.extent.token, landed.transport, kReceivedBuffer);
  return LWMQ_OK;
}

// Also after the channel was closed: what was received lives on.
Status Conversation::raw_dispose(lwmq_buffer* buffer) {
  if (os::forked() || is_created() || !settings_.raw) return check_open(true);
  const Status status = check_token(buffer, kReceivedBuffer);
  if (status != LWMQ_OK) return status;
  Landed landed;
  landed.transport = transport_of(buffer);
  landed.extent.data = static_cast<const std::uint8_t*>(buffer->data);
  landed.extent.bytes = buffer->bytes;
  landed.extent.token[0] = buffer->token[0];
  landed.extent.token[1] = buffer->token[1];
  buffer->token[3] = 0;
  if (landing_.is_home() && landing_.try_take()) [[likely]] {
    receiver_.release_held(landed);  // what landed last costs no atomic operation
    landing_.release();
  } else {
    receiver_.release(landed);
  }
  return LWMQ_OK;
}

}  // namespace lwmq::conversation
