// The receiving half of a conversation: land -> decode -> deliver.
//
// Usually the thread that receives also lands and decodes. Extents land in runs: two calls of the provider
// serve up to 32 small messages, and the peer gets its room back with the last of them. When a transport has
// lost its peer, it is drained, and what lands then waits among the arrivals. All of this belongs to the
// holder of the landing side, except the counters.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "base/status.h"
#include "codec/decoder.h"
#include "conversation/arrivals.h"
#include "conversation/completions.h"
#include "conversation/fetch_ahead.h"
#include "conversation/kept_buffers.h"
#include "conversation/loan.h"
#include "lwmq/lwmq_tli.h"
#include "message/message.h"
#include "wire/message_header.h"

namespace lwmq::conversation {

// A message of this size or more stays where it arrived, and its extent goes back when the message is
// destroyed. To copy a smaller one costs less than the peer's buffer is worth.
inline constexpr std::uint64_t kViewBytes = 4096;
inline constexpr std::uint32_t kRunExtents = 32;  // that land together
// A run of about 4 KiB also counts as full: other messages lie behind it.
inline constexpr std::uint64_t kRunFullBytes = 3072;

// Whether a land has answered this because the peer is gone or broken.
[[nodiscard]] inline bool is_peer_over(Status status) noexcept {
  return status != LWMQ_OK && status != LWMQ_E_EMPTY && status != LWMQ_E_INTERRUPTED &&
         status != LWMQ_E_TIMED_OUT;
}

class Receiver {
 public:
  explicit Receiver(const lwmq_tli_provider* provider) noexcept
      : tli_(*provider->transport),
        release_last_(provider->fast != nullptr && provider->fast->release_last != nullptr
                          ? provider->fast->release_last
                          : provider->transport->release),
        kept_buffers_(KeptBuffers::create()) {}
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;
  // Gives back what was not received.
  ~Receiver() {
    Completions completions;
    clear(completions);
    if (kept_buffers_ != nullptr) kept_buffers_->drop();
  }

  // From now on decoded messages are erased when they are destroyed.
  void erase_messages() noexcept { erases_ = true; }

  // From now on messages keep their numbers, for a merge of several ways to a peer.
  void keep_numbers() noexcept { keeps_numbers_ = true; }

  // `passes`: the peer is in this process, so the pointers that it sends can be trusted.
  void attach(lwmq_tli_transport* transport, std::uint32_t buffers, bool passes) noexcept {
    transport_ = transport;
    peer_buffers_ = buffers;
    if (kept_buffers_ != nullptr) kept_buffers_->set_buffers(buffers);
    passes_ = passes;
    messages_before_ = messages();
    goodbye_.reset();
  }
  void detach() noexcept {
    leave_run();
    transport_ = nullptr;
    broken_off_ = false;
  }
  // Nothing more of this peer is landed. What has landed of it goes back unread.
  void break_off() noexcept;
  [[nodiscard]] lwmq_tli_transport* transport() const noexcept { return transport_; }
  // Of the attached peer, or of the last one.
  [[nodiscard]] std::uint64_t peer_buffers() const noexcept { return peer_buffers_; }

  // The next extent: from the arrivals, else landed now. LWMQ_E_EMPTY; the status of *out_report, which is
  // told once (else it is null); or what land says about the peer.
  Status next(Landed* out_landed, std::unique_ptr<Report>* out_report);
  // The next extent, which fills a buffer, for a caller that would wait for it. This looks for as long as a
  // wait does before it sleeps. False: there was none in that time, or call next.
  bool next_soon(Landed* out_landed) noexcept {
    if (!land_run(1, LWMQ_TLI_LAND_SOON | LWMQ_TLI_LAND_LARGE) || !pop(out_landed)) return false;
    count(1, out_landed->extent.bytes);
    return true;
  }
  // Gives back an extent that next gave, with the landing side in hand.
  void release_held(Landed& landed) noexcept {
    landed.last = last_data_ != nullptr && landed.transport == transport_ && landed.extent.data == last_data_;
    last_data_ = nullptr;
    release(landed);
  }
  // For an extent that decode had no memory for: next gives it once more.
  void put_back(const Landed& landed) noexcept;
  // For an extent that was no message: it does not count as received.
  void uncount(const Landed& landed) noexcept;
  // The message of an extent, which goes back at once or with the message. LWMQ_E_CORRUPT: it has gone back.
  // LWMQ_E_NO_MEMORY: it has not, see put_back.
  Status decode(Landed& landed, Message** out_message) noexcept {
    if (landed.extent.bytes < kViewBytes || !may_stay(landed)) return decode_copy(landed, out_message);
    return note_made(decode_view(landed, out_message), out_message);
  }
  // The same, but copied whatever its size: the extent has gone back, except on LWMQ_E_NO_MEMORY.
  Status decode_copy(Landed& landed, Message** out_message) noexcept {
    const Status status = make(landed.extent, landed.passes, out_message);
    if (status != LWMQ_E_NO_MEMORY) [[likely]]
      release(landed);
    return status;
  }
  // Drops an extent that is not to be received. A message that was handed over goes to `completions`.
  void discard(Landed& landed, Completions& completions) noexcept {
    if (is_passed(landed.extent, landed.passes)) completions.add(take_passed(landed.extent));
    release(landed);
  }
  void release(const Landed& landed) noexcept {
    (landed.last ? release_last_ : tli_.release)(landed.transport, &landed.landing, 1);
  }
  // The next message of a run that has landed, if it only needs to be copied. Else null, and nothing has
  // changed.
  Message* take_at_hand() noexcept {
    if (run_next_ == run_end_) return nullptr;
    const lwmq_tli_extent& extent = run_[run_next_];
    if (!is_plain(extent)) [[unlikely]]
      return nullptr;
    ahead_.pass(extent.data, extent.bytes);
    Message* message = Message::copy_of(extent.data, extent.bytes);
    if (message == nullptr) [[unlikely]]
      return nullptr;
    count(1, extent.bytes);
    if (++run_next_ == run_end_) [[unlikely]]
      leave_run();
    return message;
  }
  // Up to `limit` small messages that are there and only need to be copied; returns how many. next says what
  // comes after them. `how`, LWMQ_TLI_LAND_*: whether to look for the first one as long as a wait would.
  std::uint32_t take_run(std::uint32_t limit, std::uint32_t how, Message** out_messages) noexcept {
    std::uint32_t taken = 0;
    std::uint64_t bytes = 0;
    while (taken < limit && (run_next_ < run_end_ || land_run(kRunExtents, how))) {
      how = LWMQ_TLI_LAND_NOW;
      const lwmq_tli_extent& extent = run_[run_next_];
      const std::uint64_t extent_bytes = extent.bytes;
      if (extent_bytes >= kViewBytes) [[unlikely]]
        break;
      ahead_.pass(extent.data, extent_bytes);
      Message* message = nullptr;
      if (!(is_plain(extent) ? copy_plain(extent, &message) : make_other(extent, &message))) [[unlikely]]
        break;  // no message, or memory is short: next tells which
      if (++run_next_ == run_end_) leave_run();
      if (message == nullptr) [[unlikely]]  // a goodbye: next limits how many there may be
        break;
      out_messages[taken++] = message;
      bytes += extent_bytes;
    }
    count(taken, bytes);
    return taken;
  }

  // Lends small messages that are there and are only bytes, where they lie, as many as `loan` takes. Returns
  // whether there were any. next says what comes after them. `how` as above.
  bool lend(Loan& loan, std::uint32_t how) noexcept {
    const std::uint32_t before = loan.count();
    while (loan.takes_runs() && (run_next_ < run_end_ || land_run(kRunExtents, how))) {
      how = LWMQ_TLI_LAND_NOW;
      if (!lend_some(loan)) [[unlikely]]
        break;
    }
    return loan.count() != before;
  }

  // For the service thread. Lands if nothing waits to be received. Returns what land says, or LWMQ_E_EMPTY.
  Status look();
  // Lands all that is left into the arrivals. Returns what land says at the end, or LWMQ_E_NO_MEMORY.
  Status drain();
  // Makes room for a report. True after drain has come to the end. False: no memory.
  [[nodiscard]] bool has_room() noexcept { return arrivals_.has_room(); }
  // Puts an outcome behind the arrivals, after has_room.
  void report(std::unique_ptr<Report> report) noexcept { arrivals_.push({{}, std::move(report)}); }
  // How many messages were lost with the peers whose end was reported and not received.
  [[nodiscard]] std::uint64_t untold_losses() const noexcept;

  // How many extents and reports wait, once no run is left.
  [[nodiscard]] std::uint64_t waiting() const noexcept { return (aside_ ? 1 : 0) + arrivals_.size(); }
  // Whether something waits to be received.
  [[nodiscard]] bool has_arrivals() const noexcept {
    return run_next_ < run_end_ || aside_.has_value() || !arrivals_.empty();
  }
  // Whether next would give a report.
  [[nodiscard]] bool has_report() const noexcept {
    return run_next_ == run_end_ && !aside_ && !arrivals_.empty() && arrivals_.front().report != nullptr;
  }

  // Messages of the attached peer that the application has received.
  [[nodiscard]] std::uint64_t messages_from_peer() const noexcept { return messages() - messages_before_; }
  // How many messages the attached peer has received, if it said so before it closed.
  [[nodiscard]] std::optional<std::uint64_t> goodbye() const noexcept { return goodbye_; }

  // Drops what waits; messages that were handed over go to `completions`.
  void clear(Completions& completions) noexcept;

  // Any thread. Hints.
  [[nodiscard]] bool may_have_run() const noexcept { return has_run_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t messages() const noexcept { return messages_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

 private:
  // After the last run was taken.
  Status land(std::uint32_t limit, std::uint32_t how) noexcept;
  // If nothing waits to be received. False: call next.
  bool land_run(std::uint32_t limit, std::uint32_t how) noexcept {
    if (transport_ == nullptr || has_arrivals()) [[unlikely]]
      return false;
    return land(limit, how) == LWMQ_OK;
  }
  // The next extent of the run. False: it was a goodbye, and has gone back.
  bool pop(Landed* out_landed) noexcept;
  // Gives back what was taken of the run. The rest waits among the arrivals.
  void leave_run() noexcept;
  void forget_run() noexcept {
    run_begin_ = run_next_ = run_end_ = 0;
    has_run_.store(false, std::memory_order_relaxed);
  }
  void release_taken() noexcept {
    if (run_next_ > run_begin_) release_last_(transport_, &run_landing_, run_next_ - run_begin_);
    run_begin_ = run_next_;
  }
  // Lends from the run. False: it ends with something that is not lent.
  bool lend_some(Loan& loan) noexcept;
  static bool is_small_frame(const lwmq_tli_extent& extent) noexcept {
    return extent.kind == static_cast<std::uint32_t>(wire::ExtentKind::kOneFrame) &&
           extent.bytes < kViewBytes;
  }
  [[nodiscard]] bool is_plain(const lwmq_tli_extent& extent) const noexcept {
    return is_small_frame(extent) && !erases_;
  }
  static bool copy_plain(const lwmq_tli_extent& extent, Message** out_message) noexcept {
    *out_message = Message::copy_of(extent.data, extent.bytes);
    return *out_message != nullptr;
  }
  // The next extent of the run, on its own.
  [[nodiscard]] Landed landed_here() const noexcept {
    return {transport_, run_[run_next_], {run_landing_.token, run_landing_.buffer, 1}, true, passes_};
  }
  // True without a message: it was a goodbye.
  bool make_other(const lwmq_tli_extent& extent, Message** out_message) noexcept;
  // False: it is no goodbye.
  bool note_goodbye(const lwmq_tli_extent& extent) noexcept;
  // Only the holder of the landing side writes, so a plain store is enough.
  [[gnu::always_inline]] void count(std::uint64_t messages, std::uint64_t bytes) noexcept {
    messages_.store(messages_.load(std::memory_order_relaxed) + messages, std::memory_order_relaxed);
    bytes_.store(bytes_.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
  }
  static bool is_passed(const lwmq_tli_extent& extent, bool passes) noexcept {
    return passes && extent.kind == static_cast<std::uint32_t>(wire::ExtentKind::kPassed) &&
           extent.bytes == sizeof(Message*);
  }
  Message* take_passed(const lwmq_tli_extent& extent) noexcept;
  // The message that was handed over, or a copy.
  Status make(const lwmq_tli_extent& extent, bool passes, Message** out_message) noexcept {
    Status status = LWMQ_OK;
    if (is_passed(extent, passes)) {
      *out_message = take_passed(extent);
    } else {
      status = codec::decode_copy(extent.data, extent.bytes, extent.kind, out_message);
    }
    return note_made(status, out_message);
  }
  Status note_made(Status status, Message** message) const noexcept {
    if (erases_ && status == LWMQ_OK) [[unlikely]]
      (*message)->erase_when_destroyed();
    if (status == LWMQ_OK && (*message)->is_numbered() && !keeps_numbers_) [[unlikely]]
      (*message)->take_number();
    return status;
  }
  // Whether a message may keep the buffer. If so, it does.
  [[nodiscard]] bool may_stay(const Landed& landed) noexcept {
    return kept_buffers_ != nullptr && kept_buffers_->keep(landed.landing.buffer);
  }
  Status decode_view(Landed& landed, Message** out_message) noexcept;

  const lwmq_tli_transport_table& tli_;
  void (*const release_last_)(lwmq_tli_transport*, const lwmq_tli_landing*, std::uint32_t);
  KeptBuffers* const kept_buffers_;  // null where memory was short: then every message is copied
  lwmq_tli_transport* transport_ = nullptr;
  std::uint64_t peer_buffers_ = 0;
  bool passes_ = false;
  bool broken_off_ = false;
  bool erases_ = false;
  bool keeps_numbers_ = false;
  std::uint64_t messages_before_ = 0;  // messages of other peers: earlier ones, and late ones
  std::optional<std::uint64_t> goodbye_;
  // A run that has landed, in front of the arrivals. [run_next_, run_end_) is still to be taken. [run_begin_,
  // run_next_) goes back with its last message. What lies before was lent.
  std::array<lwmq_tli_extent, kRunExtents> run_;
  lwmq_tli_landing run_landing_{};
  std::uint32_t run_begin_ = 0;
  std::uint32_t run_next_ = 0;
  std::uint32_t run_end_ = 0;
  FetchAhead ahead_;
  std::atomic<bool> has_run_{false};  // something of the run is still to be taken
  const void* last_data_ = nullptr;   // data of the extent that landed last; null after the next land
  std::optional<Landed> aside_;       // was put back; comes before the arrivals
  Arrivals arrivals_;
  std::atomic<std::uint64_t> messages_{0};  // written by the holder of the landing side
  std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace lwmq::conversation
