// The receiving half of a channel: land -> decode -> deliver.
//
// Usually the thread that receives lands and decodes itself. What the service thread lands (to see the end of
// a buffer while the application does not look, or to drain a transport that has lost its peer) waits among
// the arrivals as the extent that it is. Small messages land in runs: two calls of the provider serve up to
// 32 receives, and the peer gets its room back with the last of them. Everything here is for the holder of
// the channel's landing side, but the counters.
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
#include "tli/tables.h"
#include "wire/message_header.h"

namespace lwmq::conversation {

// From here on a message lies where it arrived, and its extent goes back when the message is destroyed;
// below, a copy costs less than the peer's buffer is worth.
inline constexpr std::uint64_t kViewBytes = 4096;
// How many small ones land together.
inline constexpr std::uint32_t kRunExtents = 32;
// Nor more than some 4 KiB (lwmq_tli.h): behind fewer messages that take so much others lie.
inline constexpr std::uint64_t kRunFullBytes = 3072;
// Who lands so many runs of so few, one after the other, chases the peer.
inline constexpr std::uint32_t kChase = 2;
inline constexpr std::uint32_t kShortRun = 1;

// Whether this is no answer of a wait, but what land says of a peer that is gone or broken.
[[nodiscard]] inline bool is_peer_over(Status status) noexcept {
  return status != LWMQ_OK && status != LWMQ_E_EMPTY && status != LWMQ_E_INTERRUPTED &&
         status != LWMQ_E_TIMED_OUT;
}

class Receiver {
 public:
  explicit Receiver(const lwmq_tli_provider* provider) noexcept
      : tli_(provider->transport), fast_(&tli::fast_of(*provider)), kept_buffers_(KeptBuffers::create()) {}
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;
  // Gives back what nobody received.
  ~Receiver() {
    Completions completions;
    clear(completions);
    if (kept_buffers_ != nullptr) kept_buffers_->drop();
  }

  // From now on what is decoded is erased when it is destroyed.
  void erase_messages() noexcept { erases_ = true; }

  // From now on numbers of messages stay on them, for who merges several ways to a peer.
  void keep_numbers() noexcept { keeps_numbers_ = true; }

  // `passes`: the peer is in this process, and what it says of messages in memory is true.
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
  // Nothing more of this peer is landed; what had landed with the last of it goes back unread.
  void break_off() noexcept;
  [[nodiscard]] lwmq_tli_transport* transport() const noexcept { return transport_; }
  // Of the peer, the last one's where none is attached.
  [[nodiscard]] std::uint64_t peer_buffers() const noexcept { return peer_buffers_; }

  // The next extent: from the arrivals, else landed now. LWMQ_E_EMPTY; the status of what was reported, once
  // (*out_report, else null); or what land says of the peer.
  Status next(Landed* out_landed, std::unique_ptr<Report>* out_report);
  // The next extent, for who would wait for it: looks as long as a wait does before it sleeps. False: there
  // was none in that time, or next knows more.
  bool next_soon(Landed* out_landed) noexcept {
    if (transport_ == nullptr || broken_off_ || fast_->land_awaited == nullptr || has_arrivals())
      return false;
    last_data_ = nullptr;
    if (fast_->land_awaited(transport_, &out_landed->extent) == 0 || !adopt(out_landed)) [[unlikely]]
      return false;
    note_last(out_landed);
    count(1, out_landed->extent.bytes);
    return true;
  }
  // The same, decoded. LWMQ_E_NO_MEMORY: it comes next once more. LWMQ_E_CORRUPT: *out_landed was no message,
  // and is back.
  Status next_message(Message** out_message, Landed* out_landed, std::unique_ptr<Report>* out_report);
  // Gives back one of those that next gave, with the landing side in hand.
  void release_held(Landed& landed) noexcept {
    landed.last = last_data_ != nullptr && landed.transport == transport_ && landed.extent.data == last_data_;
    last_data_ = nullptr;
    release(landed);
  }
  // Message of what next gave. LWMQ_E_NO_MEMORY: it comes next once more. LWMQ_E_CORRUPT: it was none, and
  // its extent is back.
  Status decode_next(Landed& landed, bool copies, Message** out_message) noexcept;
  // Drops an extent that nobody shall have; a message that was handed over goes to `completions`.
  void discard(Landed& landed, Completions& completions) noexcept {
    if (is_passed(landed.extent, landed.passes)) completions.add(take_passed(landed.extent));
    release(landed);
  }
  void release(const Landed& landed) noexcept {
    if (landed.last && fast_->release_last != nullptr) {
      fast_->release_last(landed.transport, landed.extent.token, 1);
    } else {
      lwmq_tli_extent extent = landed.extent;  // release may change it
      tli_->release(landed.transport, &extent);
    }
  }
  // The next of a run that has landed, where it needs no more than a copy; else null, and all is as it was.
  Message* take_at_hand() noexcept {
    if (run_next_ == run_end_) return nullptr;
    const lwmq_tli_piece& piece = run_[run_next_];
    if (!is_plain(piece)) [[unlikely]]
      return nullptr;
    ahead_.pass(piece.data, piece.bytes);
    Message* message = Message::copy_of(piece.data, piece.bytes);
    if (message == nullptr) [[unlikely]]
      return nullptr;
    count(1, piece.bytes);
    if (++run_next_ == run_end_) [[unlikely]]
      leave_run();
    return message;
  }
  // The next small message, for who would wait for it: looks as long as a wait does before it sleeps. What
  // has come behind it can wait until it is answered. Does as take_run, but that a run of one needs no books.
  // False: there was none, or next knows more.
  bool take_soon(Message** out_message) noexcept {
    std::uint64_t token[2];
    lwmq_tli_piece piece;
    if (!land_soon(token, &piece)) [[unlikely]]
      return false;
    if (is_plain(piece) && copy_plain(piece, out_message)) [[likely]] {
      fast_->release_last(transport_, token, 1);
      count(1, piece.bytes);
      return true;
    }
    begin_run(token, piece);
    return take_run(1, out_message) == 1;
  }
  // Whether run after run was short: we are as fast as the peer, and chase it. Who may wait does so before he
  // looks again, and the provider knows how long to let the peer go ahead.
  [[nodiscard]] bool is_chasing() const noexcept { return short_runs_ >= kChase && !has_arrivals(); }
  // Small messages that are there already and need no more than a copy, for less than one next and decode
  // each: how many. What ends them, next says.
  std::uint32_t take_run(std::uint32_t limit, Message** out_messages) noexcept {
    std::uint32_t taken = 0;
    std::uint64_t bytes = 0;
    while (taken < limit && (run_next_ < run_end_ || land_run())) {
      const lwmq_tli_piece& piece = run_[run_next_];
      const std::uint64_t piece_bytes = piece.bytes;
      ahead_.pass(piece.data, piece_bytes);
      Message* message = nullptr;
      if (!(is_plain(piece) ? copy_plain(piece, &message) : make_other(run_extent(), &message)))
          [[unlikely]] {
        leave_run();  // none, or memory is short: next says so
        break;
      }
      if (++run_next_ == run_end_) leave_run();
      if (message == nullptr) [[unlikely]]  // a goodbye: next knows how many it may be
        break;
      out_messages[taken++] = message;
      bytes += piece_bytes;
    }
    count(taken, bytes);
    return taken;
  }

  // Small messages that are there already and are no more than their bytes, where they lie, as many as `loan`
  // takes: whether there were any. What ends them, next says.
  bool lend(Loan& loan) noexcept {
    const std::uint32_t before = loan.count();
    while (loan.takes_runs() && (run_next_ < run_end_ || land_run())) {
      if (!lend_some(loan)) [[unlikely]]
        break;
    }
    return loan.count() != before;
  }
  // Likewise the next one, for who would wait for it, as take_soon.
  bool lend_soon(Loan& loan) noexcept {
    std::uint64_t token[2];
    lwmq_tli_piece piece;
    if (!land_soon(token, &piece)) return false;
    begin_run(token, piece);
    return lend_some(loan);
  }

  // The service thread's. Lands one extent among the arrivals if nothing waits there; what land says, or
  // LWMQ_E_EMPTY.
  Status look();
  // Lands all that is left among the arrivals; returns what land says at the end, or LWMQ_E_NO_MEMORY.
  Status drain();
  // Whether there is room for a report: so, too, where drain has come to the end. False: no memory.
  [[nodiscard]] bool has_room() noexcept { return arrivals_.has_room(); }
  // Puts an outcome behind the arrivals, where there is room.
  void report(std::unique_ptr<Report> report) noexcept { arrivals_.push({{}, std::move(report)}); }
  // Of what was reported and not received: how many messages were lost.
  [[nodiscard]] std::uint64_t untold_losses() const noexcept;

  // How much waits there, once no run is left.
  [[nodiscard]] std::uint64_t waiting() const noexcept { return (aside_ ? 1 : 0) + arrivals_.size(); }
  // Whether something waits there.
  [[nodiscard]] bool has_arrivals() const noexcept {
    return run_next_ < run_end_ || aside_.has_value() || !arrivals_.empty();
  }
  // Whether next would say what was reported.
  [[nodiscard]] bool has_report() const noexcept {
    return run_next_ == run_end_ && !aside_ && !arrivals_.empty() && arrivals_.front().report != nullptr;
  }

  // Messages of the attached peer that the application has received.
  [[nodiscard]] std::uint64_t messages_from_peer() const noexcept { return messages() - messages_before_; }
  // How many of ours the attached peer has received, where it said so before it closed.
  [[nodiscard]] std::optional<std::uint64_t> goodbye() const noexcept { return goodbye_; }

  // Drops what waits there; messages among it go to `completions`.
  void clear(Completions& completions) noexcept;

  // Any thread: hints.
  [[nodiscard]] bool may_have_run() const noexcept { return has_run_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t messages() const noexcept { return messages_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

 private:
  Status land(Landed* out_landed) noexcept;
  // Of an extent that the provider has just lent. False: it was a goodbye, and is back.
  bool adopt(Landed* landed) noexcept {
    landed->transport = transport_;
    landed->passes = passes_;
    if (!note_goodbye(landed->extent)) [[likely]]
      return true;
    release(*landed);
    return false;
  }
  // It has landed last, and can go back as such until the next look.
  void note_last(Landed* landed) noexcept {
    landed->last = true;
    last_data_ = landed->extent.data;
  }
  // Where no run is left. False: next knows more.
  bool land_run() noexcept;
  bool land_soon(std::uint64_t (&token)[2], lwmq_tli_piece* out_piece) noexcept {
    if (transport_ == nullptr || broken_off_ || fast_->land_soon == nullptr || has_arrivals()) return false;
    short_runs_ = 0;
    last_data_ = nullptr;
    ahead_.caught_up();
    return fast_->land_soon(transport_, kViewBytes, token, out_piece) != 0;
  }
  // Gives back what was taken of the run; the rest waits among the arrivals.
  void leave_run() noexcept;
  void forget_run() noexcept {
    run_begin_ = run_next_ = run_end_ = 0;
    has_run_.store(false, std::memory_order_relaxed);
  }
  // A run of one that has landed without us.
  void begin_run(const std::uint64_t (&token)[2], const lwmq_tli_piece& piece) noexcept {
    run_token_[0] = token[0];
    run_token_[1] = token[1];
    run_[0] = piece;
    run_begin_ = run_next_ = 0;
    run_end_ = 1;
    has_run_.store(true, std::memory_order_relaxed);
  }
  void release_taken() noexcept {
    if (run_next_ > run_begin_) fast_->release_last(transport_, run_token_, run_next_ - run_begin_);
    run_begin_ = run_next_;
  }
  // Of the run that has landed. False: it ends with something that is not lent.
  bool lend_some(Loan& loan) noexcept;
  static bool is_one_frame(const lwmq_tli_piece& piece) noexcept {
    return piece.kind == static_cast<std::uint32_t>(wire::ExtentKind::kOneFrame);
  }
  [[nodiscard]] bool is_plain(const lwmq_tli_piece& piece) const noexcept {
    return is_one_frame(piece) && !erases_;
  }
  static bool copy_plain(const lwmq_tli_piece& piece, Message** out_message) noexcept {
    *out_message = Message::copy_of(piece.data, piece.bytes);
    return *out_message != nullptr;
  }
  // The next of the run, as land would have given it.
  [[nodiscard]] lwmq_tli_extent run_extent() const noexcept {
    const lwmq_tli_piece& piece = run_[run_next_];
    return {piece.data, piece.bytes, piece.kind, 0, {run_token_[0], run_token_[1]}};
  }
  // True without a message: a goodbye.
  bool make_other(const lwmq_tli_extent& extent, Message** out_message) noexcept;
  // False: it is none.
  bool note_goodbye(const lwmq_tli_extent& extent) noexcept;
  // Of the holder, who alone writes: no read-modify-write.
  [[gnu::always_inline]] void count(std::uint64_t messages, std::uint64_t bytes) noexcept {
    messages_.store(messages_.load(std::memory_order_relaxed) + messages, std::memory_order_relaxed);
    bytes_.store(bytes_.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
  }
  void put_back(const Landed& landed) noexcept;
  void uncount(const Landed& landed) noexcept;
  // Message of an extent, which goes back at once or with the message. LWMQ_E_CORRUPT: it is back.
  // LWMQ_E_NO_MEMORY: it is not.
  Status decode(Landed& landed, Message** out_message) noexcept {
    if (landed.extent.bytes < kViewBytes || !may_stay(landed)) return decode_copy(landed, out_message);
    return note_made(decode_view(landed, out_message), out_message);
  }
  // The same, copied whatever its size: the extent is back, but for LWMQ_E_NO_MEMORY.
  Status decode_copy(Landed& landed, Message** out_message) noexcept {
    const Status status = make(landed.extent, landed.passes, out_message);
    if (status != LWMQ_E_NO_MEMORY) [[likely]]
      release(landed);
    return status;
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
  // Whether a message may keep the buffer; then it does.
  [[nodiscard]] bool may_stay(const Landed& landed) noexcept {
    return kept_buffers_ != nullptr && kept_buffers_->keep(landed.extent.token[0]);
  }
  Status decode_view(Landed& landed, Message** out_message) noexcept;

  const lwmq_tli_transport_table* const tli_;
  const lwmq_tli_fast_table* const fast_;
  KeptBuffers* const kept_buffers_;  // null where there was no memory: nothing lies where it landed
  lwmq_tli_transport* transport_ = nullptr;
  std::uint64_t peer_buffers_ = 0;
  bool passes_ = false;
  bool broken_off_ = false;
  bool erases_ = false;
  bool keeps_numbers_ = false;
  std::uint64_t messages_before_ = 0;  // of other peers: what came before this one, and what is late
  std::optional<std::uint64_t> goodbye_;
  // A run that has landed, in front of the arrivals: [run_next_, run_end_) is still to be taken,
  // [run_begin_, run_next_) goes back with the last of it, what lies before was lent.
  std::array<lwmq_tli_piece, kRunExtents> run_;
  std::uint64_t run_token_[2] = {};
  std::uint32_t run_begin_ = 0;
  std::uint32_t run_next_ = 0;
  std::uint32_t run_end_ = 0;
  FetchAhead ahead_;
  std::uint32_t short_runs_ = 0;      // one after the other, without a wait
  std::atomic<bool> has_run_{false};  // something of it is still to be taken
  const void* last_data_ = nullptr;   // of the extent that landed last, while nothing was looked for since
  std::optional<Landed> aside_;       // put back, in front of the arrivals
  Arrivals arrivals_;
  std::atomic<std::uint64_t> messages_{0};  // written by the holder
  std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace lwmq::conversation
