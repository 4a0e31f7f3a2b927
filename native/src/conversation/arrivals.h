// What has come and waits to be received: extents and outcomes, in order. Room is made before it is needed,
// and there may be none: what a peer has sent is not to be lost for that.
//
// For the holder of the channel's landing side.
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

// An extent and the transport that wants it back. Transports keep what they need for that beyond their close.
struct Landed {
  lwmq_tli_transport* transport = nullptr;
  lwmq_tli_extent extent{};
  bool last = false;    // nothing has landed since: release_last takes it
  bool passes = false;  // as attach said of the transport
};

// An outcome that one receive answers: the end of a peer, which took `lost` messages with it, or a failure.
struct Report {
  Status status = LWMQ_OK;
  std::uint64_t lost = 0;
  std::uint64_t position = 0;  // in a receive queue: due when that many messages were taken or discarded
  std::uint64_t end = 0;       // the first, the second end of a peer, and so on; 0: a failure
  std::unique_ptr<Report> next;
  char text[640] = "";

  // Null: no memory.
  static std::unique_ptr<Report> make() noexcept {
    return std::unique_ptr<Report>(new (std::nothrow) Report);
  }
  void set(Status why, const char* said, std::uint64_t messages_lost = 0) noexcept {
    status = why;
    lost = messages_lost;
    std::snprintf(text, sizeof text, "%s", said);
  }
  // As the answer of a call.
  [[nodiscard]] Status say() const noexcept {
    fail(status, "%s", text);
    set_error_tag(end);
    return status;
  }
};

// What a receive answers that has found a message, and no memory for it.
inline Status fail_short_of_memory() noexcept {
  return fail(LWMQ_E_NO_MEMORY, "no memory for a message that has come; it waits: receive again");
}

struct Arrival {
  Landed landed;
  std::unique_ptr<Report> report;  // else it is an extent
};

// A ring that grows.
class Arrivals {
 public:
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] std::uint32_t size() const noexcept { return count_; }
  [[nodiscard]] const Arrival& front() const noexcept { return at(0); }

  // For one more. False: no memory; never of the first kReserved.
  [[nodiscard]] bool has_room() noexcept { return count_ < capacity_ || grow(); }
  // Where there is room.
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

  static constexpr std::uint32_t kReserved = 33;  // a run that was not taken, and one more

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
  std::unique_ptr<Arrival[]> more_;  // in their place
  std::uint32_t capacity_ = kReserved;
  std::uint32_t begin_ = 0;
  std::uint32_t count_ = 0;
};

}  // namespace lwmq::conversation
