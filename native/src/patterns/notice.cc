#include "patterns/notice.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <new>

#include "channel/channel.h"
#include "os/deadline.h"
#include "os/identity.h"

namespace lwmq::patterns {
namespace {

// The thread turns to the next channel after so many messages of one, or after so much time.
constexpr std::uint32_t kTurn = 64;
constexpr std::int64_t kTurnNs = os::kMillisecond;
constexpr std::int64_t kFailurePauseNs = 100 * os::kMillisecond;
constexpr std::int64_t kClosingPauseNs =
    5 * os::kMillisecond;  // a signal may end the linger, and the calls go on

thread_local Notice* running = nullptr;  // the notice whose call-back this thread runs

// Whether a receive answers this status again and again until the channel connects. The end of a peer comes
// once.
bool may_last(Status status) noexcept {
  return is_failure(status) && status != LWMQ_E_CLOSED && status != LWMQ_E_PEER_LOST &&
         status != LWMQ_E_CORRUPT;
}

}  // namespace

Status Notice::begin() noexcept {
  Status status = channel_->descriptor(&fd_);
  if (status == LWMQ_OK) status = service::ServiceThread::calling().add(this);
  if (status != LWMQ_OK) return status;
  status = service::ServiceThread::calling().watch(this, fd_);
  if (status == LWMQ_OK) {
    service::ServiceThread::calling().request(this);  // messages may be there already
  } else {
    service::ServiceThread::calling().remove(this);
  }
  return status;
}

void Notice::end() noexcept {
  service::ServiceThread::calling().unwatch(fd_);
  service::ServiceThread::calling().remove(this);
}

Status notify(Channel& channel, lwmq_on_message callback, std::int32_t signal, void* context) {
  if (os::forked()) return channel.first().refuse_phase();
  const char* address = channel.address().c_str();
  const bool ends = callback == nullptr && signal == 0;
  if (Notice* around = Notice::around(&channel); around != nullptr) {
    if (!ends)
      return fail(LWMQ_E_INVALID, "a call-back may end its calls, not put another in its place (%s)",
                  address);
    around->end_after_this();
    return LWMQ_OK;
  }
  if (!ends) {
    if (const Status status = channel.first().check_open_or_ended(false); status != LWMQ_OK) return status;
    if (callback == nullptr && (signal < SIGRTMIN || signal > SIGRTMAX))
      return fail(LWMQ_E_INVALID, "signal %d is no real-time signal: there are %d to %d (%s)", signal,
                  SIGRTMIN, SIGRTMAX, address);
  }
  channel::AttachmentSlot& slot = channel.notice();
  const std::lock_guard lock(slot.mutex);
  if (slot.attachment != nullptr) {
    static_cast<Notice&>(*slot.attachment).end();
    slot.attachment.reset();
  }
  if (ends) return LWMQ_OK;
  std::unique_ptr<Notice> made(new (std::nothrow) Notice(&channel, callback, signal, context));
  if (made == nullptr) return fail(LWMQ_E_NO_MEMORY, "no memory for a call-back (%s)", address);
  const Status status = made->begin();
  if (status == LWMQ_OK) slot.attachment = std::move(made);
  return status;
}

Notice* Notice::around(const Channel* channel) noexcept {
  return running != nullptr && running->channel_ == channel ? running : nullptr;
}

std::int64_t Notice::serve(std::int64_t now_ns, bool) noexcept {
  if (over_) return service::kNever;
  return callback_ != nullptr ? call(now_ns) : raise(now_ns);
}

std::int64_t Notice::call(std::int64_t now_ns) noexcept {
  for (std::uint32_t i = 0; i < kTurn; ++i) {
    Message* message = nullptr;
    std::uint32_t count = 0;
    running = this;  // a RELEASE call-back may run in here, too
    const Status status = channel_->receive(0, 1, &message, &count);
    running = nullptr;
    if (status == LWMQ_E_EMPTY) return service::kNever;
    if (status == LWMQ_E_CLOSED && channel_->first().phase() == Channel::Phase::kClosing)
      return now_ns + kClosingPauseNs;
    if (may_last(status) && status == told_) return now_ns + kFailurePauseNs;
    told_ = status;
    const bool ends = status != LWMQ_OK && !may_last(status);
    const bool last = ends && (channel_->first().is_over() || channel_->first().is_for_one_peer());
    running = this;
    callback_(context_, status, reinterpret_cast<lwmq_message*>(message));
    running = nullptr;
    over_ = over_ || last;
    if (over_) return service::kNever;
    if (os::now_ns() - now_ns > kTurnNs) break;
  }
  return now_ns;
}

// Raises the signal once. The next one comes after a receive has found nothing.
std::int64_t Notice::raise(std::int64_t now_ns) const noexcept {
  sigval value{};
  value.sival_ptr = context_;
  if (sigqueue(getpid(), signal_, value) == 0 || errno != EAGAIN) return service::kNever;
  return now_ns + os::kMillisecond;  // the process has as many signals pending as it may
}

}  // namespace lwmq::patterns
