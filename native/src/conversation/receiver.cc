#include "conversation/receiver.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "codec/encoder.h"
#include "message/block_pool.h"
#include "os/identity.h"
#include "wire/message_header.h"

namespace lwmq::conversation {
namespace {

constexpr int kGoodbyesAtOnce = 64;  // a tape brings some; a hostile peer may send any number

// Keeps an extent for the messages that show it.
struct Lease {
  message::Owner owner;
  const lwmq_tli_transport_table* tli;
  KeptBuffers* kept;
  Landed landed;

  static void finish(message::Owner* owner) noexcept {
    auto* lease = reinterpret_cast<Lease*>(owner);
    const Landed& landed = lease->landed;
    lease->kept->give_back(landed.landing.buffer);
    if (!os::forked()) lease->tli->release(landed.transport, &landed.landing, 1);
    message::give_block(lease);
  }
};
static_assert(sizeof(Lease) <= message::kBlockBytes);

}  // namespace

Status Receiver::land(std::uint32_t limit, std::uint32_t how) noexcept {
  last_data_ = nullptr;
  if (broken_off_) [[unlikely]]
    return LWMQ_E_EMPTY;
  const Status status = tli_.land(transport_, limit, how, run_.data(), &run_landing_);
  if (status == LWMQ_OK) {
    run_begin_ = run_next_ = 0;
    run_end_ = run_landing_.count;
    has_run_.store(true, std::memory_order_relaxed);
  }
  if (status != LWMQ_OK || run_end_ == 1) {
    ahead_.caught_up();
    return status;
  }
  const lwmq_tli_extent& last = run_[run_end_ - 1];
  const auto bytes = reinterpret_cast<std::uintptr_t>(last.data) + last.bytes -
                     reinterpret_cast<std::uintptr_t>(run_[0].data);
  ahead_.begin_run(bytes, run_end_ == kRunExtents || bytes >= kRunFullBytes);
  return LWMQ_OK;
}

bool Receiver::pop(Landed* out_landed) noexcept {
  release_taken();
  *out_landed = landed_here();
  last_data_ = out_landed->extent.data;
  run_begin_ = ++run_next_;
  if (run_next_ == run_end_) forget_run();
  if (!note_goodbye(out_landed->extent)) [[likely]]
    return true;
  release(*out_landed);
  return false;
}

Status Receiver::next(Landed* out_landed, std::unique_ptr<Report>* out_report) {
  if (aside_) [[unlikely]] {
    *out_landed = *aside_;
    aside_.reset();
  } else {
    for (int goodbyes = 0;; ++goodbyes) {
      if (run_next_ == run_end_) {
        if (!arrivals_.empty()) [[unlikely]] {
          Arrival arrival = arrivals_.pop();
          if (arrival.report != nullptr) {
            *out_report = std::move(arrival.report);
            return (*out_report)->status;
          }
          *out_landed = arrival.landed;
          break;
        }
        if (transport_ == nullptr || goodbyes == kGoodbyesAtOnce) return LWMQ_E_EMPTY;
        if (const Status status = land(kRunExtents, LWMQ_TLI_LAND_NOW); status != LWMQ_OK) return status;
      }
      if (pop(out_landed)) [[likely]]
        break;
    }
  }
  count(1, out_landed->extent.bytes);
  if (out_landed->transport != transport_) ++messages_before_;
  return LWMQ_OK;
}

void Receiver::put_back(const Landed& landed) noexcept {
  leave_run();  // what has landed after it comes after it
  aside_ = landed;
  aside_->last = false;  // other extents may land before it goes back
  uncount(landed);
}

void Receiver::uncount(const Landed& landed) noexcept {
  count(-std::uint64_t{1}, -landed.extent.bytes);
  if (landed.transport != transport_) --messages_before_;
}

[[gnu::noinline]] bool Receiver::make_other(const lwmq_tli_extent& extent, Message** out_message) noexcept {
  return note_goodbye(extent) || make(extent, passes_, out_message) == LWMQ_OK;
}

bool Receiver::note_goodbye(const lwmq_tli_extent& extent) noexcept {
  if (extent.kind != static_cast<std::uint32_t>(wire::ExtentKind::kGoodbye)) [[likely]]
    return false;
  wire::Goodbye goodbye{};
  if (extent.bytes == sizeof goodbye) {  // a false number is bounded where it is used
    std::memcpy(&goodbye, extent.data, sizeof goodbye);
    goodbye_ = goodbye.messages_received;
  }
  return true;
}

void Receiver::leave_run() noexcept {
  release_taken();
  for (; run_next_ < run_end_; ++run_next_) {
    Landed landed = landed_here();
    landed.last = false;  // other extents land before it goes back
    if (note_goodbye(landed.extent)) {
      release(landed);
    } else {
      arrivals_.push({landed, nullptr});  // there were none, and the rest of a run has room
    }
  }
  forget_run();
}

void Receiver::break_off() noexcept {
  broken_off_ = true;
  if (passes_) return;  // the peer is in this process: messages that it has handed over stay valid
  run_next_ = run_end_;
  leave_run();
  if (aside_ && aside_->transport == transport_) {
    release(*aside_);
    aside_.reset();
  }
  arrivals_.remove_if([this](Arrival& arrival) {
    const bool its = arrival.report == nullptr && arrival.landed.transport == transport_;
    if (its) release(arrival.landed);
    return its;
  });
}

bool Receiver::lend_some(Loan& loan) noexcept {
  release_taken();
  const std::uint32_t limit = std::min(loan.left(), run_end_ - run_next_);
  const lwmq_tli_extent* const run = &run_[run_next_];
  lwmq_lent* const entries = loan.next_entry();
  std::uint64_t bytes = 0;
  std::uint32_t lent = 0;
  for (; lent < limit; ++lent) {
    const lwmq_tli_extent& extent = run[lent];
    if (!is_small_frame(extent)) [[unlikely]]
      break;
    ahead_.pass(extent.data, extent.bytes);
    entries[lent] = {extent.data, extent.bytes, nullptr};
    bytes += extent.bytes;
  }
  if (lent == 0) return false;
  loan.add_run(tli_, transport_, run_landing_, lent);
  count(lent, bytes);
  run_begin_ = run_next_ += lent;
  if (run_next_ == run_end_) leave_run();
  return lent == limit;
}

// Takes the message that a peer in this process has handed over.
Message* Receiver::take_passed(const lwmq_tli_extent& extent) noexcept {
  Message* message = nullptr;
  std::memcpy(&message, extent.data, sizeof message);
  count(0, codec::measure(*message).bytes - sizeof message);
  return message;
}

Status Receiver::decode_view(Landed& landed, Message** out_message) noexcept {
  const lwmq_tli_extent& extent = landed.extent;
  void* block = message::take_block();
  if (block == nullptr) {
    kept_buffers_->give_back(landed.landing.buffer);
    return fail(LWMQ_E_NO_MEMORY, "no memory for a message of %" PRIu64 " bytes", extent.bytes);
  }
  landed.last = false;  // other extents land before it goes back
  auto* lease = new (block) Lease{message::Owner(Lease::finish), &tli_, kept_buffers_, landed};
  const Status status =
      codec::decode_view(extent.data, extent.bytes, extent.kind, &lease->owner, out_message);
  if (status == LWMQ_E_NO_MEMORY) [[unlikely]] {  // no message shows it: the extent stays
    kept_buffers_->give_back(landed.landing.buffer);
    message::give_block(lease);
    return status;
  }
  message::drop(&lease->owner);  // the frames of the message hold references of their own
  return status;
}

Status Receiver::look() {
  if (has_arrivals() || transport_ == nullptr) return LWMQ_E_EMPTY;
  return land(kRunExtents, LWMQ_TLI_LAND_NOW);
}

Status Receiver::drain() {
  leave_run();
  while (arrivals_.has_room()) {
    if (const Status status = land(1, LWMQ_TLI_LAND_NOW); status != LWMQ_OK) return status;
    leave_run();
  }
  return LWMQ_E_NO_MEMORY;
}

std::uint64_t Receiver::untold_losses() const noexcept {
  std::uint64_t lost = 0;
  arrivals_.for_each([&lost](const Arrival& arrival) {
    if (arrival.report != nullptr) lost += arrival.report->lost;
  });
  return lost;
}

void Receiver::clear(Completions& completions) noexcept {
  leave_run();
  if (aside_) {
    discard(*aside_, completions);
    aside_.reset();
  }
  while (!arrivals_.empty()) {
    Arrival arrival = arrivals_.pop();
    if (arrival.report == nullptr) discard(arrival.landed, completions);
  }
}

}  // namespace lwmq::conversation
