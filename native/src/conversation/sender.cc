#include "conversation/sender.h"

#include <cstring>

namespace lwmq::conversation {
namespace {

// The least that a message counts against a limit in bytes: an empty one takes time, too.
constexpr std::uint64_t kMessageCost = 16;

}  // namespace

void Sender::attach(const lwmq_tli_provider* provider, lwmq_tli_transport* transport, bool passes) noexcept {
  tli_ = provider->transport;
  show_run_ = provider->fast != nullptr ? provider->fast->show_run : nullptr;
  flush_ = tli_->flush;
  passes_ = passes;
  transport_ = transport;
  messages_before_ = messages();
  refusals_ = 0;
  leave_buffer();
}

// After the open buffer, if there is one, has no room.
[[gnu::noinline]] Sent Sender::open_buffer() noexcept {
  if (transport_ == nullptr) return Sent::kNoPeer;
  if (has_open_buffer()) {
    add(shipped_full_, 1);
    if (const Status status = ship(); status != LWMQ_OK) return note_refusal(status);
  }
  const Status status = tli_->acquire(transport_, &buffer_);
  if (status != LWMQ_OK) leave_buffer();  // whatever a module has written to the buffer
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
  if (!has_open_buffer() || show_run_ == nullptr) return 0;  // without a peer there is no open buffer
  std::uint64_t bytes = 0;
  const std::uint64_t shown = show_run_(transport_, &buffer_, frames, count,
                                        static_cast<std::uint32_t>(wire::ExtentKind::kOneFrame), &bytes);
  add(messages_, shown);
  add(bytes_, bytes);
  return shown;
}

Sent Sender::put(Message* message) noexcept {
  const codec::Encoding encoding = codec::measure(*message);
  const Sent room = make_room(passes_ ? sizeof message : encoding.bytes);
  if (room != Sent::kAll) return room;
  return passes_ ? pass(message) : write(*message, encoding);
}

// After make_room.
Sent Sender::write(const Message& message, const codec::Encoding& encoding) noexcept {
  codec::encode(message, buffer_.next);
  return show(encoding.bytes, encoding.kind, encoding.bytes);
}

// After make_room. Once the message is shown, the peer may destroy it.
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
  const std::uint64_t end = bytes() + bytes_max;
  const std::uint64_t last = messages() + bytes_max / kMessageCost;
  codec::Encoding encoding;
  while (scheduler.front(&encoding)) {
    if (bytes() >= end || messages() >= last) return Sent::kSome;
    const Sent room = make_room(passes_ ? sizeof(Message*) : encoding.bytes);
    if (room != Sent::kAll) return room;
    Message* message = scheduler.claim(passes_ ? UINT64_MAX : buffer_.room, &encoding);
    if (message == nullptr) continue;  // a larger message has replaced it
    if (passes_) {
      scheduler.done();  // out of its queue before the peer has it
      if (pass(message) == Sent::kAll) continue;
      add(messages_, 1);  // counts as shipped and not read, which is lost
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

// Ships the open buffer. Afterwards none is open.
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
  flush();
}

void Sender::count_raw(std::uint64_t bytes) noexcept {
  add(messages_, 1);
  add(bytes_, bytes);
  add(shipped_full_, 1);
}

}  // namespace lwmq::conversation
