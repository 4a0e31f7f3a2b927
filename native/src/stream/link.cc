#include "stream/link.h"

#include <time.h>

#include <cinttypes>
#include <cstring>

#include "base/failure.h"
#include "os/clock.h"
#include "tli/tables.h"

namespace lwmq::stream {
namespace {

// A buffer goes on its way when that much was shown in it, long before it is full: both ends then live in a
// few pages that stay in the cache, and the peer can release it early.
constexpr std::uint64_t kShipAfterBytes = 16 * kKiB;
constexpr std::uint64_t kWordBytes = 8;  // what a lane adds to each message

}  // namespace

lwmq_tli_options control_options() noexcept {
  lwmq_tli_options options{};
  options.size = sizeof options;
  options.buffer_bytes = kControlBufferBytes;
  options.buffers_send = kControlBuffers;
  options.purpose = LWMQ_TLI_FOR_STREAM;
  return options;
}

Link::~Link() {
  Failure failure;  // of this thread: it may say why we let go, and closing may fail in its turn
  failure.keep(LWMQ_E_CLOSED);
  provider_->transport->close(transport_, 0, 0);
  failure.tell();
}

Status Link::send(wire::StreamKind kind, const void* data, std::uint64_t bytes) {
  if (bytes > kLetterBytesMax) {
    return fail(LWMQ_E_TOO_BIG, "a control message of %" PRIu64 " bytes; %" PRIu64 " are possible", bytes,
                kLetterBytesMax);
  }
  const char* at = static_cast<const char*>(data);
  for (; bytes > wire::kPartBytes; at += wire::kPartBytes, bytes -= wire::kPartBytes) {
    const Status status = send_part(wire::StreamKind::kPart, at, wire::kPartBytes);
    if (status != LWMQ_OK) return status;
  }
  return send_part(kind, at, bytes);
}

Status Link::send_part(wire::StreamKind kind, const void* data, std::uint64_t bytes) {
  if (backlog_.empty() || flush()) {
    const Status status = try_send(kind, data, bytes);
    if (status != LWMQ_E_FULL) return status;
  }
  backlog_.emplace_back(kind, bytes > 0 ? std::string(static_cast<const char*>(data), bytes) : std::string());
  return LWMQ_OK;
}

Status Link::try_send(wire::StreamKind kind, const void* data, std::uint64_t bytes) {
  if (has_open_ && (open_.room < bytes || open_.room == 0)) {
    has_open_ = false;
    const Status status = provider_->transport->ship(transport_, &open_);
    if (status != LWMQ_OK) return status;
  }
  if (!has_open_) {
    const Status status = provider_->transport->acquire(transport_, &open_);
    if (status != LWMQ_OK) return status;
    has_open_ = true;
    shown_in_open_ = 0;
  }
  if (bytes > 0) std::memcpy(open_.next, data, bytes);
  const Status status =
      provider_->transport->show(transport_, &open_, bytes, static_cast<std::uint32_t>(kind));
  if (status != LWMQ_OK) return status;
  shown_in_open_ += bytes + kWordBytes;  // messages without bytes fill a buffer, too
  if (shown_in_open_ < kShipAfterBytes) {
    tli::flush(*provider_->transport, transport_);
    return LWMQ_OK;
  }
  has_open_ = false;
  return provider_->transport->ship(transport_, &open_);
}

bool Link::flush() {
  while (!backlog_.empty()) {
    const auto& [kind, bytes] = backlog_.front();
    if (try_send(kind, bytes.data(), bytes.size()) != LWMQ_OK) return false;
    backlog_.pop_front();
  }
  return true;
}

Status Link::receive(wire::StreamKind* out_kind, std::string* out_bytes) {
  for (;;) {
    lwmq_tli_extent extent;
    const Status status = provider_->transport->land(transport_, &extent);
    if (status != LWMQ_OK) return status;
    const auto kind = static_cast<wire::StreamKind>(extent.kind);
    const bool is_part = kind == wire::StreamKind::kPart;
    const std::uint64_t bytes = extent.bytes;
    const bool fits = parts_.size() + bytes <= kLetterBytesMax && (!is_part || bytes == wire::kPartBytes);
    if (fits) parts_.append(reinterpret_cast<const char*>(extent.data), bytes);
    ++received_;
    if (kind == wire::StreamKind::kPong) ++answers_;
    provider_->transport->release(transport_, &extent);
    if (!fits) {
      return fail(LWMQ_E_CORRUPT,
                  "a part of %" PRIu64 " bytes, behind %zu, of a control message; parts have %" PRIu64
                  ", a message at most %" PRIu64,
                  bytes, parts_.size(), wire::kPartBytes, kLetterBytesMax);
    }
    if (is_part) continue;
    *out_kind = kind;
    out_bytes->swap(parts_);
    parts_.clear();
    return LWMQ_OK;
  }
}

Status Link::wait(std::uint32_t timeout_ms) {
  const std::uint32_t room = has_backlog() ? std::uint32_t{LWMQ_TLI_WAIT_ROOM} : 0u;
  return provider_->transport->wait(transport_, LWMQ_TLI_WAIT_EXTENT | room, timeout_ms);
}

Status Link::show(const Window& window) const {
  const std::int64_t deadline = os::now_ns() + std::int64_t{kStallMs} * 1'000'000;
  for (;;) {
    const Status status = try_show(window);
    if (status != LWMQ_E_FULL) return status;
    if (os::now_ns() >= deadline) {
      return fail(LWMQ_E_STALLED, "%s has not looked for the windows shown to it for %u ms",
                  name_of(peer()).c_str(), kStallMs);
    }
    timespec pause{0, 1'000'000};
    if (nanosleep(&pause, nullptr) != 0) return LWMQ_E_INTERRUPTED;
  }
}

Status Link::find_window(const std::uint8_t id[16], Window* out_window) const {
  // The peer shows a window before it sends the message that names it. So there is no wait: a peer that lies
  // holds up nobody.
  lwmq_tli_window* found = nullptr;
  const Status status = provider_->memory->find(transport_, id, 0, &found);
  if (status == LWMQ_OK) *out_window = Window(provider_, found);
  return status == LWMQ_E_TIMED_OUT ? fail(LWMQ_E_CORRUPT, "the peer names a window that it has not shown")
                                    : status;
}

Status Link::find_page(const std::uint8_t id[16], LapPage* out_page) const {
  Window window;
  const Status status = find_window(id, &window);
  return status == LWMQ_OK ? LapPage::adopt(std::move(window), out_page) : status;
}

}  // namespace lwmq::stream
