// What a listener and the transports it has accepted share: one epoll descriptor behind which everything lies
// that may make a poller look. It outlives the listener as long as one of the transports does.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/status.h"
#include "os/unique_fd.h"

namespace lwmq::ipc {

class Transport;

class Door {
 public:
  static Status create(std::shared_ptr<Door>* out_door);

  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }

  // A socket whose readability is for accept: the listening one, and those that shake hands.
  Status add_socket(int fd) noexcept;
  void remove_socket(int fd) noexcept;
  // Makes whoever watches for edges look again, where the socket is readable still.
  void call_again(int fd) noexcept;

  // A transport's life line: its hang-up.
  Status add_transport(Transport* transport) noexcept;
  void remove_transport(Transport* transport) noexcept;
  // Its doorbell, once it has one.
  Status add_doorbell(int bell) noexcept;
  // It is for another descriptor from now on; the hang-up stays.
  void leave_doorbell(int bell) noexcept;
  // A descriptor of one transport: its doorbell and its life line's hang-up.
  static Status create_for(int bell, int life_line, os::UniqueFd* out_fd) noexcept;

  // Whoever polls looks again: a transport has become ready or has ended, by another way than its socket. Any
  // thread.
  void ring() const noexcept;
  // What ring makes readable.
  [[nodiscard]] int bell() const noexcept { return bell_.get(); }

  // Takes back the rings: before whoever polls looks at what they tell of.
  void drain() const noexcept;
  // Tells the transports whose life line has been hung up. True: there were some, and whoever polls is to
  // hear of it from a caller who is somebody else. Never waits.
  bool look_at_life_lines() noexcept;

  // The listener closes: its transports live on, and take back the rings themselves.
  void leave() noexcept { is_left_.store(true, std::memory_order_relaxed); }
  // Whoever looks at the door hears of hang-ups.
  [[nodiscard]] bool has_listener() const noexcept { return !is_left_.load(std::memory_order_relaxed); }
  // Of one of them.
  void disarm() const noexcept {
    if (is_left_.load(std::memory_order_relaxed)) drain();
  }

 private:
  os::UniqueFd epoll_;
  os::UniqueFd bell_;
  std::atomic<bool> is_left_{false};
  std::mutex mutex_;
  std::uint64_t next_key_ = 1;                  // under the mutex
  std::map<std::uint64_t, Transport*> by_key_;  // under the mutex; life lines that still may hang up
};

}  // namespace lwmq::ipc
