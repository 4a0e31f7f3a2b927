// The socket of a transport after its handshake: the peer's doorbell and window notices in, window notices
// out, and its hang-up.
#include <algorithm>
#include <cstring>

#include "base/yield_point.h"
#include "os/clock.h"
#include "os/event_fd.h"
#include "os/identity.h"
#include "providers/ipc/transport.h"

namespace lwmq::ipc {
namespace {

constexpr int kRepeatedAtOnce = 64;  // what a peer says again takes no place, and may have no end
constexpr int kPollSliceMs = 20;  // between two looks at the peer's death word while we wait for its socket

std::string key_of(const std::uint8_t id[16]) { return {reinterpret_cast<const char*>(id), 16}; }

int slice_ms(std::int64_t deadline) noexcept {
  const std::int64_t left_ms = (deadline - os::now_ns()) / 1'000'000;
  return static_cast<int>(std::clamp<std::int64_t>(left_ms, 1, kPollSliceMs));
}

}  // namespace

// ---- In ----------------------------------------------------------------------------------------------

Status Transport::take_message(const AnyMessage& message, os::Received* received) {
  const std::uint32_t kind = message.head.magic == kMagic ? message.head.kind : 0;
  if (kind == kDoorbell && received->bytes == sizeof(Doorbell) && received->fd_count == 1)
    return take_doorbell(received);
  if (kind == kWindowNotice && received->bytes == sizeof(WindowNotice) && received->fd_count == 2 &&
      message.window.bytes != 0) {
    return take_notice(message.window, received);
  }
  return fail(LWMQ_E_CORRUPT, "a control message of %zu bytes, kind %u, with %zu descriptors",
              received->bytes, message.head.kind, received->fd_count);
}

Status Transport::take_doorbell(os::Received* received) {
  if (peer_bell_.is_there()) return fail(LWMQ_E_CORRUPT, "the peer has sent a second doorbell");
  if (!os::is_event_fd(received->fds[0].get()))
    return fail(LWMQ_E_CORRUPT, "the peer's doorbell is no eventfd");
  peer_bell_.put(std::move(received->fds[0]));
  if (owes_ring_.exchange(false, std::memory_order_relaxed)) os::ring_event_fd(peer_bell_.get());
  return LWMQ_OK;
}

Status Transport::take_notice(const WindowNotice& notice, os::Received* received) {
  const std::string key = key_of(notice.id);
  if (found_.contains(key) && is_window_mapped(notice.id))
    return LWMQ_OK;  // twice, and whoever found it has it still
  ShownWindow shown;
  shown.notice = notice;
  if (const Status status = meet_process(std::move(received->fds[1]), notice.owner, &shown.owner);
      status != LWMQ_OK) {
    return status;
  }
  shown.fd = std::move(received->fds[0]);
  if (const Status status = os::check_foreign_segment(shown.fd.get(), notice.bytes); status != LWMQ_OK)
    return status;
  shown_.insert_or_assign(key, std::move(shown));
  return LWMQ_OK;
}

// Takes what has arrived, as much as we are ready to hold. Under line_mutex_. LWMQ_E_SYSTEM: this process has
// no descriptor left for what is there; it stays in the socket, and the peer is not to blame.
Status Transport::read_life_line(std::unique_lock<std::mutex>& /*lock*/) {
  if (broken_.load(std::memory_order_relaxed)) return LWMQ_OK;
  for (int repeated = 0; life_line_ && shown_.size() < kWindowsUnfoundMax && repeated < kRepeatedAtOnce;) {
    const std::size_t had = shown_.size();
    AnyMessage message{};
    os::Received received;
    Status status = os::receive_message(life_line(), &message, sizeof message, &received);
    if (status == LWMQ_E_EMPTY) return LWMQ_OK;
    if (status == LWMQ_E_SYSTEM) return status;
    if (status == LWMQ_OK) status = take_message(message, &received);
    if (status == LWMQ_OK) {
      if (shown_.size() == had) ++repeated;
      continue;
    }
    if (status != LWMQ_E_PEER_LOST) {
      add_context(parts_.address.c_str());
      breach_.keep(status);
      broken_.store(true, std::memory_order_relaxed);
      end(LWMQ_TLI_LOST);
    }
    hung_up_.store(true, std::memory_order_release);
    break;
  }
  return LWMQ_OK;
}

// Keeps the peer's exports flowing and notices its hang-up, at the price of one system call per sleep.
void Transport::glance_at_life_line() noexcept {
  std::unique_lock lock(line_mutex_, std::try_to_lock);
  if (lock.owns_lock() && !hung_up_.load(std::memory_order_relaxed)) read_life_line(lock);
}

Status Transport::find_window(const std::uint8_t id[16], std::uint32_t timeout_ms, Window** out_window) {
  const std::int64_t deadline =
      timeout_ms == LWMQ_FOREVER ? INT64_MAX : os::now_ns() + std::int64_t{timeout_ms} * 1'000'000;
  const std::string key = key_of(id);
  for (;;) {
    if (os::forked()) return over();
    const bool connected = state() == LWMQ_TLI_CONNECTED;  // before the look
    {
      std::unique_lock lock(line_mutex_);
      if (const Status status = read_life_line(lock); status != LWMQ_OK) {
        add_context(parts_.address.c_str());
        return status;
      }
      // Only what this peer has shown: a mapping that exists for another peer is no business of this one.
      Status status = LWMQ_E_EMPTY;
      if (auto arrived = shown_.extract(key); !arrived.empty()) {
        LWMQ_YIELD("window.find");
        status = map_window(std::move(arrived.mapped()), out_window);
        LWMQ_YIELD("window.found");
        if (status == LWMQ_OK) remember_found(key);
      } else if (found_.contains(key)) {
        status = find_mapped_window(id, out_window);
      }
      if (status == LWMQ_OK) return LWMQ_OK;
      if (status != LWMQ_E_EMPTY) return status;
      if (shown_.size() >= kWindowsUnfoundMax) {
        return fail(LWMQ_E_CORRUPT, "%s: the peer has shown %zu windows that nobody looked for, not this one",
                    parts_.address.c_str(), shown_.size());
      }
    }
    if (!connected) return over();
    if (os::now_ns() >= deadline) return LWMQ_E_TIMED_OUT;
    const Status status = os::poll_socket(life_line(), false, slice_ms(deadline));
    if (status == LWMQ_E_INTERRUPTED) return status;
  }
}

// So that it may be found again while somebody keeps it. Under line_mutex_.
void Transport::remember_found(const std::string& key) {
  found_.insert(key);
  if (found_.size() < found_limit_) return;
  std::erase_if(found_, [](const std::string& id) {
    return !is_window_mapped(reinterpret_cast<const std::uint8_t*>(id.data()));
  });
  found_limit_ = std::max<std::size_t>(kFoundRememberedMin, 2 * found_.size());
}

// ---- Out ---------------------------------------------------------------------------------------------

Status Transport::export_window(Window* window) {
  if (os::forked()) return over();
  const lwmq_tli_window_info& info = window->info();
  WindowNotice notice{};
  notice.head = {kMagic, kProtocolVersion, kWindowNotice};
  notice.owner_pid = info.owner_pid;
  notice.bytes = info.bytes;
  std::memcpy(notice.id, info.id, sizeof notice.id);
  std::memcpy(notice.owner, info.owner, sizeof notice.owner);
  const int fds[] = {window->fd(), window->owner_page_fd()};
  for (;;) {
    if (state() != LWMQ_TLI_CONNECTED) return over();
    LWMQ_YIELD("window.export");
    const Status status = os::send_message(life_line(), &notice, sizeof notice, fds, 2);
    if (status != LWMQ_E_PEER_LOST) return status;
    hung_up_.store(true, std::memory_order_release);  // state says how it ended
  }
}

}  // namespace lwmq::ipc
