// What has come and waits to be received: extents and outcomes, in order. Room is made before it is needed.
// If there is no memory for it, what the peer has sent stays in the transport.
//
// Used by the holder of the landing side.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <new>
#include <utility>

#include "base/status.h"
#include "lwmq/lwmq_tli.h"

namespace lwmq::conversation {

// An extent, and the transport that it goes back to. A transport keeps what it needs for that beyond its
// close.
struct Landed {
  lwmq_tli_transport* transport = nullptr;
  lwmq_tli_extent extent{};
  lwmq_tli_landing landing{};  // of this extent only
  bool last = false;           // nothing has landed since: release_last takes it back
  bool passes = false;         // Receiver::attach has said so of the transport
};

// An outcome that one receive answers: a failure, or the end of a peer with which `lost` messages were lost.
struct Report {
  Status status = LWMQ_OK;
  std::uint64_t lost = 0;
  std::uint64_t position = 0;  // in a receive queue: due when so many messages were taken or discarded
  std::uint64_t end = 0;       // counts the ends of peers from 1; 0: a failure
  std::unique_ptr<Report> next;
  char text[640] = "";

  // Null where memory is short.
  static std::unique_ptr<Report> make() noexcept {
    return std::unique_ptr<Report>(new (std::nothrow) Report);
  }
  void set(Status why, const char* said, std::uint64_t messages_lost = 0) noexcept {
    status = why;
    lost = messages_lost;
    std::snprintf(text, sizeof text, "%s", said);
  }
  // Makes this the answer of a call.
  [[nodiscard]] Status say() const noexcept {
    fail(status, "%s", text);
    set_error_tag(end);
    return status;
  }
};

// The answer of a receive that has found a message, and no memory for it.
inline Status fail_short_of_memory() noexcept {
  return fail(LWMQ_E_NO_MEMORY, "no memory for a message that has come; it waits: receive again");
}

struct Arrival {
  Landed landed;
  std::unique_ptr<Report> report;  // null: an extent
};

// A ring buffer that grows.
class Arrivals {
 public:
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] std::uint32_t size() const noexcept { return count_; }
  [[nodiscard]] const Arrival& front() const noexcept { return at(0); }

  // Makes room for one more. False where memory is short, but never for the first kReserved.
  [[nodiscard]] bool has_room() noexcept { return count_ < capacity_ || grow(); }
  // After has_room.
  void push(Arrival arrival) noexcept { at(count_++) = std::move(arrival); }
  Arrival pop() noexcept {
    Arrival first = std::move(at(0));
    begin_ = (begin_ + 1) % capacity_;
    --count_;
    return first;
  }
  template <typename Each>
  void for_each(Each&& each) const noexcept {
    for (std::uint32_t i = 0; i < count_; ++i) each(at(i));
  }
  template <typename Predicate>
  void remove_if(Predicate&& is_so) noexcept {
    std::uint32_t kept = 0;
    for (std::uint32_t i = 0; i < count_; ++i) {
      if (is_so(at(i))) continue;
      if (kept != i) at(kept) = std::move(at(i));
      ++kept;
    }
    count_ = kept;
  }

  static constexpr std::uint32_t kReserved = 33;  // the rest of a run, and one more

 private:
  [[nodiscard]] Arrival& at(std::uint32_t i) noexcept { return slots()[(begin_ + i) % capacity_]; }
  [[nodiscard]] const Arrival& at(std::uint32_t i) const noexcept {
    return slots()[(begin_ + i) % capacity_];
  }
  [[nodiscard]] Arrival* slots() noexcept { return more_ ? more_.get() : own_; }
  [[nodiscard]] const Arrival* slots() const noexcept { return more_ ? more_.get() : own_; }

  bool grow() noexcept {
    std::unique_ptr<Arrival[]> larger(new (std::nothrow) Arrival[std::size_t{capacity_} * 2]);
    if (!larger) return false;
    for (std::uint32_t i = 0; i < count_; ++i) larger[i] = std::move(at(i));
    more_ = std::move(larger);
    begin_ = 0;
    capacity_ *= 2;
    return true;
  }

  Arrival own_[kReserved];
  std::unique_ptr<Arrival[]> more_;  // replaces own_
  std::uint32_t capacity_ = kReserved;
  std::uint32_t begin_ = 0;
  std::uint32_t count_ = 0;
};

}  // namespace lwmq::conversation
