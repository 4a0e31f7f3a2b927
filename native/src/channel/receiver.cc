#include "channel/receiver.h"

#include <cstring>
#include <new>

#include "codec/encoder.h"
#include "message/block_pool.h"
#include "os/identity.h"
#include "wire/message_header.h"

namespace lwmq::channel {
namespace {

// Keeps an extent for the messages that show it.
struct Lease {
  message::Owner owner;
  const lwmq_tli_provider* provider;
  Landed landed;

  static void finish(message::Owner* owner) noexcept {
    auto* lease = reinterpret_cast<Lease*>(owner);
    if (!os::forked()) lease->provider->release(lease->landed.transport, &lease->landed.extent);
    message::give_block(lease);
  }
};
static_assert(sizeof(Lease) <= message::kBlockBytes);

}  // namespace

Status Receiver::land(Landed* out_landed) noexcept {
  for (;;) {
    const Status status = provider_->land(transport_, &out_landed->extent);
    if (status != LWMQ_OK) return status;
    out_landed->transport = transport_;
    if (out_landed->extent.kind != static_cast<std::uint32_t>(wire::ExtentKind::kGoodbye)) [[likely]]
      return LWMQ_OK;
    wire::Goodbye goodbye{};
    if (out_landed->extent.bytes == sizeof goodbye) {  // what a liar says is bounded where it is used
      std::memcpy(&goodbye, out_landed->extent.data, sizeof goodbye);
      goodbye_ = goodbye.messages_received;
    }
    release(*out_landed);
  }
}

Status Receiver::next(Landed* out_landed, bool* out_reported) {
  Status status = LWMQ_E_EMPTY;
  if (!queue_.empty()) [[unlikely]] {
    status = queue_.front().status;
    *out_landed = queue_.front().landed;
    *out_reported = status != LWMQ_OK;
    if (status != LWMQ_OK) fail(status, "%s", queue_.front().text.c_str());
    queue_.pop_front();
  } else if (transport_ != nullptr) {
    status = land(out_landed);
    out_landed->last = true;
  }
  if (status != LWMQ_OK) return status;
  messages_.store(messages_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);  // our own
  if (out_landed->transport == transport_) ++messages_from_peer_;
  bytes_.store(bytes_.load(std::memory_order_relaxed) + out_landed->extent.bytes, std::memory_order_relaxed);
  return LWMQ_OK;
}

// The message that a peer in this process has handed over: ours now.
Message* Receiver::take_passed(const Landed& landed) noexcept {
  Message* message = nullptr;
  std::memcpy(&message, landed.extent.data, sizeof message);
  const std::uint64_t more = codec::measure(*message).bytes - sizeof message;
  bytes_.store(bytes_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  return message;
}

Status Receiver::decode_view(Landed& landed, Message** out_message) noexcept {
  const lwmq_tli_extent& extent = landed.extent;
  void* block = message::take_block();
  if (block == nullptr) {
    release(landed);
    return fail(LWMQ_E_NO_MEMORY, "no memory for a message of %" PRIu64 " bytes", extent.bytes);
  }
  landed.last = false;  // others land before it goes back
  auto* lease = new (block) Lease{message::Owner(Lease::finish), provider_, landed};
  const Status status =
      codec::decode_view(extent.data, extent.bytes, extent.kind, &lease->owner, out_message);
  message::drop(&lease->owner);  // the message's frames hold theirs
  return status;
}

void Receiver::look() {
  if (!queue_.empty() || transport_ == nullptr) return;
  Landed landed;
  if (land(&landed) == LWMQ_OK) queue_.push_back({landed, LWMQ_OK, {}});
}

Status Receiver::drain() {
  for (;;) {
    Landed landed;
    const Status status = land(&landed);
    if (status != LWMQ_OK) return status;
    queue_.push_back({landed, LWMQ_OK, {}});
  }
}

void Receiver::report(Status status, const char* text) { queue_.push_back({{}, status, text}); }

void Receiver::clear(Completions& completions) noexcept {
  for (Arrival& arrival : queue_) {
    if (arrival.status == LWMQ_OK) discard(arrival.landed, completions);
  }
  queue_.clear();
}

}  // namespace lwmq::channel
