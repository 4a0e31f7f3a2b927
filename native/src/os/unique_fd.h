// A descriptor that is closed once: by its owner, or at the birth of a forked child.
//
// A child that kept our listening socket would keep the address busy after our death, one that kept a life
// line would hide our death from the peer. CLOEXEC covers children that exec; for those that do not, every
// number held by a UniqueFd is marked, and a fork handler closes the marked ones in the child.
#pragma once

#include <utility>

namespace lwmq::os {

class UniqueFd {
 public:
  UniqueFd() noexcept = default;
  // Takes `fd`; negative: none.
  explicit UniqueFd(int fd) noexcept;
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  [[nodiscard]] int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }

  // Closes; in a forked child, where it is closed already, forgets only.
  void reset() noexcept;

 private:
  int fd_ = -1;
};

}  // namespace lwmq::os
