#include "os/uring.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "os/clock.h"
#include "os/deadline.h"
#include "os/spin.h"

namespace lwmq::os {
namespace {

constexpr std::uint32_t kEntries = 2;  // a receive, and what cancels it
constexpr std::int64_t kSecondNs = 1'000'000'000;
constexpr std::uint64_t kReceive = 1, kCancel = 2;
// One mapping for both queues, receives that need no thread of the kernel, and sleeping for a time:
// Linux 5.11.
constexpr std::uint32_t kNeeded = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_FAST_POLL | IORING_FEAT_EXT_ARG;

void* map_part(int ring, std::size_t bytes, off_t part) noexcept {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, part);
  return at == MAP_FAILED ? nullptr : at;
}

}  // namespace

Uring* Uring::of_this_thread() noexcept {
  thread_local std::unique_ptr<Uring> ring;
  thread_local bool is_tried = false;
  if (!std::exchange(is_tried, true)) open(&ring);
  return ring.get();
}

Status Uring::open(std::unique_ptr<Uring>* out_ring) noexcept {
  std::unique_ptr<Uring> made(new (std::nothrow) Uring);
  if (made == nullptr) return fail(LWMQ_E_NO_MEMORY, "no memory for a ring");
  io_uring_params params{};
  made->ring_ = UniqueFd(static_cast<int>(syscall(SYS_io_uring_setup, kEntries, &params)));
  if (!made->ring_) return fail_call(LWMQ_E_UNSUPPORTED, errno, "io_uring_setup");
  if ((params.features & kNeeded) != kNeeded)
    return fail(LWMQ_E_UNSUPPORTED, "io_uring: needs Linux 5.11 or later");
  if (const Status status = made->map(params); status != LWMQ_OK) return status;
  // A filter may refuse this call and not the first one.
  if (!made->submit(0, 0, nullptr)) return fail_call(LWMQ_E_UNSUPPORTED, errno, "io_uring_enter");
  *out_ring = std::move(made);
  return LWMQ_OK;
}

Status Uring::map(const io_uring_params& params) noexcept {
  words_bytes_ = std::max(params.sq_off.array + params.sq_entries * sizeof *places_,
                          params.cq_off.cqes + params.cq_entries * sizeof *completions_);
  entries_bytes_ = params.sq_entries * sizeof *entries_;
  words_ = map_part(ring_.get(), words_bytes_, IORING_OFF_SQ_RING);
  entries_ = static_cast<io_uring_sqe*>(map_part(ring_.get(), entries_bytes_, IORING_OFF_SQES));
  if (words_ == nullptr || entries_ == nullptr)
    return fail_call(LWMQ_E_UNSUPPORTED, errno, "mmap of io_uring");
  const auto word = [this](std::uint32_t at) {
    return reinterpret_cast<std::uint32_t*>(static_cast<std::uint8_t*>(words_) + at);
  };
  tail_ = word(params.sq_off.tail);
  places_ = word(params.sq_off.array);
  mask_ = *word(params.sq_off.ring_mask);
  completed_head_ = word(params.cq_off.head);
  completed_tail_ = word(params.cq_off.tail);
  completed_mask_ = *word(params.cq_off.ring_mask);
  completions_ = reinterpret_cast<const io_uring_cqe*>(word(params.cq_off.cqes));
  return LWMQ_OK;
}

Uring::~Uring() {
  if (words_ != nullptr) munmap(words_, words_bytes_);
  if (entries_ != nullptr) munmap(entries_, entries_bytes_);
}

void Uring::add(const io_uring_sqe& entry) noexcept {
  const std::uint32_t tail = *tail_;  // our own
  entries_[tail & mask_] = entry;
  places_[tail & mask_] = tail & mask_;
  __atomic_store_n(tail_, tail + 1, __ATOMIC_RELEASE);  // sync: the kernel reads the entry
  ++unsubmitted_;
}

// Submits what was added, and sleeps until there are so many completions. False, with errno: nothing was
// submitted, and what was added is withdrawn.
bool Uring::submit(std::uint32_t completions, std::uint32_t flags,
                   const io_uring_getevents_arg* limits) noexcept {
  const std::uint32_t added = std::exchange(unsubmitted_, 0);
  const long submitted = syscall(SYS_io_uring_enter, ring_.get(), added, completions, flags, limits,
                                 limits != nullptr ? sizeof *limits : 0);
  if (submitted == added) return true;
  __atomic_store_n(tail_, *tail_ - added, __ATOMIC_RELEASE);
  return false;
}

// True: the receive has ended.
bool Uring::collect() noexcept {
  // sync: the kernel has written the completions, and the bytes of the receive
  const std::uint32_t tail = __atomic_load_n(completed_tail_, __ATOMIC_ACQUIRE);
  std::uint32_t head = *completed_head_;  // our own
  if (head == tail) return received_ != kNotYet;
  for (; head != tail; ++head) {
    const io_uring_cqe& done = completions_[head & completed_mask_];
    (done.user_data == kReceive ? received_ : cancelled_) = done.res;
  }
  __atomic_store_n(completed_head_, head, __ATOMIC_RELEASE);  // sync: their places are free
  return received_ != kNotYet;
}

void Uring::begin(int socket, msghdr* room, bool all) noexcept {
  io_uring_sqe entry{};
  entry.opcode = IORING_OP_RECVMSG;
  entry.fd = socket;
  entry.addr = reinterpret_cast<std::uintptr_t>(room);
  entry.len = 1;
  entry.msg_flags = all ? MSG_WAITALL : 0;
  entry.user_data = kReceive;
  received_ = kNotYet;
  add(entry);
}

bool Uring::look(std::int64_t ns) noexcept {
  if (!submit(0, 0, nullptr)) received_ = -EAGAIN;  // the kernel has no memory for it now
  for (const std::int64_t until = now_ns() + ns; !collect(); pause()) {
    if (now_ns() >= until) return false;
  }
  return true;
}

ssize_t Uring::finish(std::uint32_t timeout_ms) noexcept {
  const std::int64_t deadline = deadline_of(timeout_ms);
  int why = 0;  // the receive has not ended
  while (!collect() && why == 0) {
    const std::int64_t left = std::max<std::int64_t>(deadline - now_ns(), 0);
    const __kernel_timespec time{left / kSecondNs, left % kSecondNs};
    io_uring_getevents_arg limits{};
    if (deadline != kNoDeadline) limits.ts = reinterpret_cast<std::uintptr_t>(&time);
    const bool is_first = unsubmitted_ > 0;
    if (!submit(1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &limits)) {
      if (is_first) received_ = -EAGAIN;
      why = errno == ETIME ? EAGAIN : EINTR;
    } else if (is_first && !collect()) {  // the call that submits does not say why it has slept no longer
      why = now_ns() >= deadline ? EAGAIN : EINTR;
    }
  }
  cancel();
  if (received_ >= 0) return received_;
  errno = received_ == -ECANCELED ? why : -received_;
  return -1;
}

void Uring::cancel() noexcept {
  cancelled_ = -ENOENT;
  while (!collect()) {
    if (cancelled_ == -ENOENT) {  // not yet tried, or the receive was between two looks at the socket
      io_uring_sqe entry{};
      entry.opcode = IORING_OP_ASYNC_CANCEL;
      entry.fd = -1;
      entry.addr = kReceive;
      entry.user_data = kCancel;
      add(entry);
    }
    submit(1, IORING_ENTER_GETEVENTS, nullptr);
  }
}

}  // namespace lwmq::os
