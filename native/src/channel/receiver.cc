#include "channel/receiver.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "codec/encoder.h"
#include "message/block_pool.h"
#include "os/identity.h"
#include "wire/message_header.h"

namespace lwmq::channel {
namespace {

// Keeps an extent for the messages that show it.
struct Lease {
  message::Owner owner;
  const lwmq_tli_provider* provider;
  Pins* pins;
  Landed landed;

  static void finish(message::Owner* owner) noexcept {
    auto* lease = reinterpret_cast<Lease*>(owner);
    lease->pins->give_back(lease->landed.extent.token[0]);  // release may change it
    if (!os::forked()) lease->provider->release(lease->landed.transport, &lease->landed.extent);
    message::give_block(lease);
  }
};
static_assert(sizeof(Lease) <= message::kBlockBytes);

}  // namespace

Status Receiver::land(Landed* out_landed) noexcept {
  if (broken_off_) [[unlikely]]
    return LWMQ_E_EMPTY;
  for (;;) {
    const Status status = provider_->land(transport_, &out_landed->extent);
    if (status != LWMQ_OK) return status;
    out_landed->transport = transport_;
    out_landed->passes = passes_;
    if (!note_goodbye(out_landed->extent)) [[likely]]
      return LWMQ_OK;
    release(*out_landed);
  }
}

Status Receiver::next(Landed* out_landed, bool* out_reported) {
  leave_run();
  short_runs_ = 0;
  Status status = LWMQ_E_EMPTY;
  if (!arrivals_.empty()) [[unlikely]] {
    status = arrivals_.front().status;
    *out_landed = arrivals_.front().landed;
    *out_reported = status != LWMQ_OK;
    if (status != LWMQ_OK) fail(status, "%s", arrivals_.front().text.c_str());
    arrivals_.pop_front();
  } else if (transport_ != nullptr) {
    status = land(out_landed);
    out_landed->last = true;
  }
  if (status != LWMQ_OK) return status;
  count(1, out_landed->extent.bytes);
  if (out_landed->transport != transport_) ++messages_before_;
  return LWMQ_OK;
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

bool Receiver::land_run(std::uint32_t limit) noexcept {
  if (transport_ == nullptr || broken_off_ || provider_->land_run == nullptr || !arrivals_.empty())
    return false;
  run_begin_ = run_next_ = 0;
  run_end_ = provider_->land_run(transport_, kViewBytes, limit, run_token_, run_.data());
  has_run_.store(run_end_ > 0, std::memory_order_relaxed);
  short_runs_ = run_end_ > 0 && run_end_ <= kShortRun && limit > kShortRun ? short_runs_ + 1 : 0;
  return run_end_ > 0;
}

void Receiver::leave_run() noexcept {
  release_taken();
  for (; run_next_ < run_end_; ++run_next_) {
    Landed landed{transport_, run_extent(), false, passes_};
    if (note_goodbye(landed.extent)) {
      release(landed);
    } else {
      arrivals_.push_back({landed, LWMQ_OK, {}, 0});
    }
  }
  run_begin_ = run_next_ = run_end_ = 0;
  has_run_.store(false, std::memory_order_relaxed);
}

void Receiver::break_off() noexcept {
  broken_off_ = true;
  if (passes_) return;  // it is a thread of ours: what it has handed over is its messages
  run_next_ = run_end_;
  leave_run();
  const auto is_its = [this](Arrival& arrival) {
    const bool its = arrival.status == LWMQ_OK && arrival.landed.transport == transport_;
    if (its) release(arrival.landed);
    return its;
  };
  arrivals_.erase(std::remove_if(arrivals_.begin(), arrivals_.end(), is_its), arrivals_.end());
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
    entries[lent] = {piece.data, piece.bytes, nullptr};
    bytes += piece.bytes;
  }
  if (lent == 0) return false;
  loan.add_run(provider_, transport_, run_token_, lent);
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
    pins_->give_back(extent.token[0]);
    release(landed);
    return fail(LWMQ_E_NO_MEMORY, "no memory for a message of %" PRIu64 " bytes", extent.bytes);
  }
  landed.last = false;  // others land before it goes back
  auto* lease = new (block) Lease{message::Owner(Lease::finish), provider_, pins_, landed};
  const Status status =
      codec::decode_view(extent.data, extent.bytes, extent.kind, &lease->owner, out_message);
  message::drop(&lease->owner);  // the message's frames hold theirs
  return status;
}

void Receiver::look() {
  if (has_arrivals() || transport_ == nullptr) return;
  Landed landed;
  if (land(&landed) == LWMQ_OK) arrivals_.push_back({landed, LWMQ_OK, {}, 0});
}

Status Receiver::drain() {
  leave_run();
  for (;;) {
    Landed landed;
    const Status status = land(&landed);
    if (status != LWMQ_OK) return status;
    arrivals_.push_back({landed, LWMQ_OK, {}, 0});
  }
}

void Receiver::report(Status status, const char* text, std::uint64_t lost) {
  arrivals_.push_back({{}, status, text, lost});
}

std::uint64_t Receiver::untold_losses() const noexcept {
  std::uint64_t lost = 0;
  for (const Arrival& arrival : arrivals_) lost += arrival.lost;
  return lost;
}

void Receiver::clear(Completions& completions) noexcept {
  leave_run();
  for (Arrival& arrival : arrivals_) {
    if (arrival.status == LWMQ_OK) discard(arrival.landed, completions);
  }
  arrivals_.clear();
}

}  // namespace lwmq::channel
