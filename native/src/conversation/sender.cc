#include "conversation/sender.h"

#include <cstring>

#include "tli/tables.h"

namespace lwmq::conversation {
namespace {

// What a message counts at least against a limit in bytes: an empty one takes time, too.
constexpr std::uint64_t kMessageCost = 16;

}  // namespace

void Sender::attach(const lwmq_tli_provider* provider, lwmq_tli_transport* transport, bool passes) noexcept {
  tli_ = provider->transport;
  fast_ = &tli::fast_of(*provider);
  flush_ = tli_->flush;
  passes_ = passes;
  transport_ = transport;
  messages_before_ = messages();
  refusals_ = 0;
  leave_buffer();
}

// The open buffer, if there is one, has no room.
[[gnu::noinline]] Sent Sender::open_buffer() noexcept {
  if (transport_ == nullptr) return Sent::kNoPeer;
  if (has_open_buffer()) {
    add(shipped_full_, 1);
    if (const Status status = ship(); status != LWMQ_OK) return note_refusal(status);
  }
  const Status status = tli_->acquire(transport_, &buffer_);
  if (status != LWMQ_OK) leave_buffer();  // whatever a module has written there
  if (status == LWMQ_E_FULL) return Sent::kNoRoom;
  if (status != LWMQ_OK) return note_refusal(status);
  open_.store(true, std::memory_order_relaxed);
  return Sent::kAll;
}

[[gnu::noinline]] Sent Sender::note_refusal(Status status) noexcept {
  if (status == LWMQ_E_CLOSED || status == LWMQ_E_PEER_LOST) return Sent::kPeerGone;
  ++refusals_;
  refusal_.keep(status);
  return Sent::kPeerGone;
}

std::uint64_t Sender::put_run(const lwmq_bytes* frames, std::uint64_t count) noexcept {
  if (!has_open_buffer() || fast_->show_run == nullptr) return 0;  // none without a peer
  std::uint64_t bytes = 0;
  const std::uint64_t shown = fast_->show_run(
      transport_, &buffer_, frames, count, static_cast<std::uint32_t>(wire::ExtentKind::kOneFrame), &bytes);
  add(messages_, shown);
  add(bytes_, bytes);
  flush(Sent::kAll);
  return shown;
}

Sent Sender::put(Message* message) noexcept {
  const codec::Encoding encoding = codec::measure(*message);
  const Sent room = make_room(passes_ ? sizeof message : encoding.bytes);
  if (room != Sent::kAll) return room;
  return flush(passes_ ? pass(message) : write(*message, encoding));
}

// After make_room.
Sent Sender::write(const Message& message, const codec::Encoding& encoding) noexcept {
  codec::encode(message, buffer_.next);
  return show(encoding.bytes, encoding.kind, encoding.bytes);
}

// After make_room. Once it is shown, the message may be gone.
Sent Sender::pass(Message* message) noexcept {
  const std::uint64_t counted = codec::measure(*message).bytes;
  std::memcpy(buffer_.next, &message, sizeof message);
  const Sent sent = show(sizeof message, wire::ExtentKind::kPassed, counted);
  if (sent == Sent::kAll) add(messages_passed_, 1);
  return sent;
}

Sent Sender::pump(scheduler::Scheduler& scheduler, std::uint64_t bytes_max,
                  Completions& completions) noexcept {
  if (transport_ == nullptr) return Sent::kNoPeer;
  return flush(pump_some(scheduler, bytes_max, completions));
}

Sent Sender::pump_some(scheduler::Scheduler& scheduler, std::uint64_t bytes_max,
                       Completions& completions) noexcept {
  const std::uint64_t end = bytes() + bytes_max;
  const std::uint64_t last = messages() + bytes_max / kMessageCost;
  codec::Encoding encoding;
  while (scheduler.front(&encoding)) {
    if (bytes() >= end || messages() >= last) return Sent::kSome;
    const Sent room = make_room(passes_ ? sizeof(Message*) : encoding.bytes);
    if (room != Sent::kAll) return room;
    Message* message = scheduler.claim(passes_ ? UINT64_MAX : buffer_.room, &encoding);
    if (message == nullptr) continue;  // a larger one came in its place
    if (passes_) {
      scheduler.done();  // out of its queue before it is the peer's
      if (pass(message) == Sent::kAll) continue;
      add(messages_, 1);  // shipped, and not read: so it counts as lost
      completions.add(message);
      return Sent::kPeerGone;
    }
    const Sent sent = write(*message, encoding);
    if (sent != Sent::kAll) {
      if (Message* gone = scheduler.put_back(message); gone != nullptr) completions.add(gone);
      return sent;
    }
    scheduler.done();
    if (message->has_owners()) {
      completions.add(message);
    } else {
      Message::destroy(message);
    }
  }
  return Sent::kAll;
}

void Sender::ship_idle() noexcept {
  if (transport_ == nullptr || !has_open_buffer()) return;
  add(shipped_idle_, 1);
  ship();  // a failure shows at the next acquire
}

// The open buffer, which is none any more.
Status Sender::ship() noexcept {
  const Status status = tli_->ship(transport_, &buffer_);
  leave_buffer();
  return status;
}

void Sender::say_goodbye(std::uint64_t messages_received) noexcept {
  const wire::Goodbye goodbye{messages_received};
  if (make_room(sizeof goodbye) == Sent::kAll) {
    std::memcpy(buffer_.next, &goodbye, sizeof goodbye);
    tli_->show(transport_, &buffer_, sizeof goodbye, static_cast<std::uint32_t>(wire::ExtentKind::kGoodbye));
  }
  ship_idle();
}

Status Sender::ship_raw(lwmq_tli_buffer* buffer, std::uint64_t bytes) noexcept {
  Status status = LWMQ_OK;
  if (fast_->ship_only != nullptr) {
    status = fast_->ship_only(transport_, buffer, bytes, 0);
  } else {
    status = tli_->show(transport_, buffer, bytes, 0);
    const Status shipped = tli_->ship(transport_, buffer);
    if (status == LWMQ_OK) status = shipped;
  }
  if (status != LWMQ_OK) return status;
  add(messages_, 1);
  add(bytes_, bytes);
  add(shipped_full_, 1);
  return LWMQ_OK;
}

}  // namespace lwmq::conversation
