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

constexpr int kGoodbyesAtOnce = 64;  // a tape brings some; of a peer that lies there may be no end

// Keeps an extent for the messages that show it.
struct Lease {
  message::Owner owner;
  const lwmq_tli_transport_table* tli;
  KeptBuffers* kept;
  Landed landed;

  static void finish(message::Owner* owner) noexcept {
    auto* lease = reinterpret_cast<Lease*>(owner);
    lease->kept->give_back(lease->landed.extent.token[0]);  // release may change it
    if (!os::forked()) lease->tli->release(lease->landed.transport, &lease->landed.extent);
    message::give_block(lease);
  }
};
static_assert(sizeof(Lease) <= message::kBlockBytes);

}  // namespace

Status Receiver::land(Landed* out_landed) noexcept {
  last_data_ = nullptr;
  if (broken_off_) [[unlikely]]
    return LWMQ_E_EMPTY;
  for (int goodbyes = 0; goodbyes < kGoodbyesAtOnce; ++goodbyes) {
    const Status status = tli_->land(transport_, &out_landed->extent);
    if (status != LWMQ_OK) return status;
    if (adopt(out_landed)) [[likely]]
      return LWMQ_OK;
  }
  return LWMQ_E_EMPTY;
}

Status Receiver::next(Landed* out_landed, std::unique_ptr<Report>* out_report) {
  if (run_end_ > 0) leave_run();
  short_runs_ = 0;
  if (aside_) [[unlikely]] {
    *out_landed = *aside_;
    aside_.reset();
  } else if (!arrivals_.empty()) [[unlikely]] {
    Arrival arrival = arrivals_.pop();
    if (arrival.report != nullptr) {
      *out_report = std::move(arrival.report);
      return (*out_report)->status;
    }
    *out_landed = arrival.landed;
  } else {
    if (transport_ == nullptr) return LWMQ_E_EMPTY;
    if (const Status status = land(out_landed); status != LWMQ_OK) return status;
    note_last(out_landed);
  }
  count(1, out_landed->extent.bytes);
  if (out_landed->transport != transport_) ++messages_before_;
  return LWMQ_OK;
}

Status Receiver::next_message(Message** out_message, Landed* out_landed,
                              std::unique_ptr<Report>* out_report) {
  const Status status = next(out_landed, out_report);
  return status == LWMQ_OK ? decode_next(*out_landed, false, out_message) : status;
}

Status Receiver::decode_next(Landed& landed, bool copies, Message** out_message) noexcept {
  const Status status = copies ? decode_copy(landed, out_message) : decode(landed, out_message);
  if (status == LWMQ_E_NO_MEMORY) {
    put_back(landed);
  } else if (status != LWMQ_OK) {
    uncount(landed);
  }
  return status;
}

// What decode had no memory for: it comes next once more.
void Receiver::put_back(const Landed& landed) noexcept {
  aside_ = landed;
  aside_->last = false;  // others may land before it goes back
  uncount(landed);
}

// What was no message: nobody has received it.
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
  if (extent.bytes == sizeof goodbye) {  // what a liar says is bounded where it is used
    std::memcpy(&goodbye, extent.data, sizeof goodbye);
    goodbye_ = goodbye.messages_received;
  }
  return true;
}

bool Receiver::land_run() noexcept {
  if (transport_ == nullptr || broken_off_ || fast_->land_run == nullptr || has_arrivals()) return false;
  last_data_ = nullptr;
  run_begin_ = run_next_ = 0;
  run_end_ = fast_->land_run(transport_, kViewBytes, kRunExtents, run_token_, run_.data());
  has_run_.store(run_end_ > 0, std::memory_order_relaxed);
  if (run_end_ == 0) {
    short_runs_ = 0;
    ahead_.caught_up();
    return false;
  }
  short_runs_ = run_end_ <= kShortRun ? short_runs_ + 1 : 0;
  const lwmq_tli_piece& last = run_[run_end_ - 1];
  const auto bytes = reinterpret_cast<std::uintptr_t>(last.data) + last.bytes -
                     reinterpret_cast<std::uintptr_t>(run_[0].data);
  ahead_.begin_run(bytes, run_end_ == kRunExtents || bytes >= kRunFullBytes);
  return true;
}

void Receiver::leave_run() noexcept {
  release_taken();
  for (; run_next_ < run_end_; ++run_next_) {
    Landed landed{transport_, run_extent(), false, passes_};
    if (note_goodbye(landed.extent)) {
      release(landed);
    } else {
      arrivals_.push({landed, nullptr});  // there were none: the rest of a run has room
    }
  }
  forget_run();
}

void Receiver::break_off() noexcept {
  broken_off_ = true;
  if (passes_) return;  // it is a thread of ours: what it has handed over is its messages
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
  const lwmq_tli_piece* const run = &run_[run_next_];
  lwmq_lent* const entries = loan.next_entry();
  std::uint64_t bytes = 0;
  std::uint32_t lent = 0;
  for (; lent < limit; ++lent) {
    const lwmq_tli_piece& piece = run[lent];
    if (!is_one_frame(piece)) [[unlikely]]
      break;
    ahead_.pass(piece.data, piece.bytes);
    entries[lent] = {piece.data, piece.bytes, nullptr};
    bytes += piece.bytes;
  }
  if (lent == 0) return false;
  loan.add_run(fast_, transport_, run_token_, lent);
  count(lent, bytes);
  run_begin_ = run_next_ += lent;
  if (run_next_ == run_end_) leave_run();
  return lent == limit;
}

// The message that a peer in this process has handed over: ours now.
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
    kept_buffers_->give_back(extent.token[0]);
    return fail(LWMQ_E_NO_MEMORY, "no memory for a message of %" PRIu64 " bytes", extent.bytes);
  }
  landed.last = false;  // others land before it goes back
  auto* lease = new (block) Lease{message::Owner(Lease::finish), tli_, kept_buffers_, landed};
  const Status status =
      codec::decode_view(extent.data, extent.bytes, extent.kind, &lease->owner, out_message);
  if (status == LWMQ_E_NO_MEMORY) [[unlikely]] {  // nothing shows it: the extent stays
    kept_buffers_->give_back(extent.token[0]);
    message::give_block(lease);
    return status;
  }
  message::drop(&lease->owner);  // the message's frames hold theirs
  return status;
}

Status Receiver::look() {
  if (has_arrivals() || transport_ == nullptr) return LWMQ_E_EMPTY;
  Landed landed;
  const Status status = land(&landed);
  if (status == LWMQ_OK) arrivals_.push({landed, nullptr});
  return status;
}

Status Receiver::drain() {
  leave_run();
  while (arrivals_.has_room()) {
    Landed landed;
    if (const Status status = land(&landed); status != LWMQ_OK) return status;
    arrivals_.push({landed, nullptr});
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
