// A receive that the kernel finishes by itself, through io_uring.
//
// The receive gets the room for its bytes when it begins. One call hands it over, sleeps, and finds the bytes
// in their place, where epoll takes a call to sleep and further ones to read. A thread that looks before it
// sleeps reads a word that the kernel writes, and makes no call at all.
//
// A receive ends in the call of its thread, and each thread has a ring of its own as long as it lives. So the
// kernel never writes to memory behind the caller's back, and has nothing to end when a connection closes or
// a process forks. It also never interrupts the thread elsewhere, as it would if a ring that the thread has
// used were closed.
#pragma once

#include <linux/io_uring.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "os/unique_fd.h"

namespace lwmq::os {

class Uring {
 public:
  // The ring of this thread, which the first call makes. Null: there is none, see open.
  static Uring* of_this_thread() noexcept;
  // LWMQ_E_UNSUPPORTED, with the reason: the kernel or a seccomp filter refuses io_uring, or the kernel is
  // older than Linux 5.11. LWMQ_E_NO_MEMORY.
  static Status open(std::unique_ptr<Uring>* out_ring) noexcept;
  ~Uring();
  Uring(const Uring&) = delete;
  Uring& operator=(const Uring&) = delete;

  // Begins to receive from a socket. The room is the kernel's until finish. With `all` the receive ends only
  // when the room is full or nothing more can come.
  void begin(int socket, msghdr* room, bool all) noexcept;
  // Whether the receive ends within `ns`, without sleeping.
  bool look(std::int64_t ns) noexcept;
  // Sleeps until the receive has ended, and answers as recvmsg does. When the time is over or a signal comes
  // before that, takes back the room and answers what has come, or EAGAIN or EINTR.
  ssize_t finish(std::uint32_t timeout_ms) noexcept;

 private:
  static constexpr std::int32_t kNotYet = INT32_MAX;

  Uring() noexcept = default;
  Status map(const io_uring_params& params) noexcept;
  void add(const io_uring_sqe& entry) noexcept;
  bool submit(std::uint32_t completions, std::uint32_t flags, const io_uring_getevents_arg* limits) noexcept;
  bool collect() noexcept;
  void cancel() noexcept;

  UniqueFd ring_;
  void* words_ = nullptr;  // the ring's words and completions, which the kernel shares with us
  std::size_t words_bytes_ = 0;
  io_uring_sqe* entries_ = nullptr;
  std::size_t entries_bytes_ = 0;
  std::uint32_t* tail_ = nullptr;  // of what we submit; we write it
  std::uint32_t* places_ = nullptr;
  std::uint32_t mask_ = 0;
  std::uint32_t* completed_head_ = nullptr;        // we write it
  const std::uint32_t* completed_tail_ = nullptr;  // the kernel writes it
  const io_uring_cqe* completions_ = nullptr;
  std::uint32_t completed_mask_ = 0;

  std::uint32_t unsubmitted_ = 0;     // entries that the next call submits: 0 or 1
  std::int32_t received_ = kNotYet;   // what the kernel says of the receive: bytes, or an error
  std::int32_t cancelled_ = kNotYet;  // and of what cancels it
};

}  // namespace lwmq::os
