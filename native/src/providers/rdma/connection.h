// A reliable connected queue pair, as a link (sockets/link.h).
//
// Bytes of the stream travel in *notes*: SENDs of at most kNoteBytes, each with a head of 8 bytes. An end
// keeps kNotes receives posted, and may send as many notes as the peer has room for (*credits*). A note tells
// how many notes of the peer were taken since the note before. The last credit is kept for a note that tells
// only that; such a note goes as soon as a quarter of the notes was taken, so neither end waits for ever.
//
//    0       2        4        8
//   +-------+--------+--------+----------------------------+
//   | bytes | taken  | flags  | bytes of the stream ...    |     flags: 1, nothing follows
//   +-------+--------+--------+----------------------------+
//
// Memory of the peer is written by RDMA WRITE. Writes and notes of one connection arrive in the order in
// which they were posted, on every kind of device, so a note vouches for the writes before it. Neither
// immediate data nor atomic operations are used: iWARP has no immediate data.
//
// One in kSignalEvery requests asks for its completion, and so do the last write of a push and one write in
// kSignalBytes. A thread that looks polls the completion queue. Before a thread sleeps, it asks for an event
// (arm).
//
// A peer that has said nothing for a while is asked for a sign of life: by an RDMA READ of no bytes, which
// its device answers without its process. Both RoCE and iWARP answer it, and only a device that has answered
// completes it: a SEND over iWARP completes once its bytes lie in a buffer of this host.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/failure.h"
#include "base/limits.h"
#include "os/unique_fd.h"
#include "providers/rdma/verbs.h"
#include "sockets/address.h"
#include "sockets/link.h"

namespace lwmq::rdma {

struct NoteHead {
  std::uint16_t bytes;
  std::uint16_t taken;
  std::uint32_t flags;
};
static_assert(sizeof(NoteHead) == 8);

class Connection final : public sockets::Link {
 public:
  static Status dial(const sockets::Address& address, const sockets::Own& own, const sockets::Place& place,
                     std::unique_ptr<Link>* out_link);
  // The served end of a client that wants to come in. Takes the id, also where it fails.
  // `can_ask`: its device answers a read.
  static Status answer(const Verbs& verbs, rdma_cm_id* id, bool can_ask, std::unique_ptr<Link>* out_link);
  ~Connection() override;

  [[nodiscard]] int fd() const noexcept override { return epoll_.get(); }
  bool arm() noexcept override;
  Status connect() noexcept override;
  ssize_t write(const iovec* pieces, std::size_t count) noexcept override;
  ssize_t read(const iovec* room, std::size_t count) noexcept override;
  bool finish() noexcept override;
  sockets::Answer ask() noexcept override;
  void shut() noexcept override;
  Status expose(void* memory, std::uint64_t bytes, sockets::Exposed* out_exposed) override;
  void hide(std::uint32_t key) noexcept override;
  Status know(const void* memory, std::uint64_t bytes) override;
  void forget(const void* memory) noexcept override;
  ssize_t write_memory(const void* from, std::uint64_t bytes, const sockets::Exposed& to, bool is_last,
                       std::uint64_t* out_number) noexcept override;
  std::uint64_t written() noexcept override;

 private:
  static constexpr std::uint32_t kNotes = 64;
  static constexpr std::uint32_t kNoteBytes = 1024;
  static constexpr std::uint32_t kTakenMax = kNotes / 4;  // that the peer does not know of
  static constexpr std::uint32_t kRequests = 128;         // that may be under way
  static constexpr std::uint32_t kSignalEvery = 16;
  static constexpr std::uint64_t kSignalBytes = 16 * kMiB;  // also the most of one write
  static constexpr std::uint64_t kCopyBytes = 256 * 1024;
  static constexpr std::uint32_t kCopies = 4;

  enum class State : std::uint8_t { kConnecting, kConnected, kRefused, kEnded };
  struct Note {
    std::uint32_t slot;
    std::uint32_t begin, end;  // of what nobody has read
  };
  struct Known {
    const std::uint8_t* at;
    std::uint64_t bytes;
    ibv_mr* region;
  };

  explicit Connection(const Verbs& verbs) noexcept : v_(verbs) {}
  Status open(rdma_cm_id* id) noexcept;
  Status make_queues() noexcept;
  // All with mutex_.
  void take_events() noexcept;
  void take_event(const rdma_cm_event& event) noexcept;
  void take_completions() noexcept;
  void nudge() noexcept;
  void take_note(std::uint32_t slot, std::uint32_t bytes) noexcept;
  void end(int error) noexcept;
  void break_off(const char* why, std::uint64_t number) noexcept;
  void refuse(Status status) noexcept;
  [[nodiscard]] bool has_news() const noexcept {
    return notes_begin_ != notes_end_ || (is_over() && !has_told_end_) ||
           (is_dialing_ && state_ != State::kConnecting);
  }
  [[nodiscard]] bool is_over() const noexcept {
    return state_ == State::kEnded || (has_heard_end_ && (end_note_ == 0 || done_ >= end_note_));
  }
  bool has_room(std::uint32_t credits, std::uint32_t requests) noexcept;
  bool send_note(const iovec* pieces, std::size_t count, std::uint64_t skip, std::uint32_t bytes,
                 std::uint32_t flags) noexcept;
  bool post(ibv_send_wr* request, std::uint64_t bytes, bool is_signalled) noexcept;
  bool post_receive(std::uint32_t slot) noexcept;
  [[nodiscard]] std::uint8_t* received(std::uint32_t slot) const noexcept {
    return notes_ + std::size_t{slot} * kNoteBytes;
  }
  [[nodiscard]] std::uint8_t* sent(std::uint64_t number) const noexcept {
    return notes_ + std::size_t{kNotes + number % kNotes} * kNoteBytes;
  }
  Status make_copies() noexcept;
  [[nodiscard]] const Known* find_known(const std::uint8_t* at, std::uint64_t* out_bytes) const noexcept;

  const Verbs& v_;
  os::UniqueFd epoll_;  // of both channels
  std::mutex mutex_;    // guards what follows
  rdma_event_channel* channel_ = nullptr;
  rdma_cm_id* id_ = nullptr;
  ibv_comp_channel* completions_ = nullptr;
  ibv_cq* queue_ = nullptr;
  std::uint8_t* notes_ = nullptr;  // kNotes that were received, kNotes that are sent
  ibv_mr* notes_region_ = nullptr;
  std::uint64_t write_bytes_max_ = 0;
  std::uint32_t inline_bytes_max_ = 0;

  State state_ = State::kConnecting;
  bool is_client_ = false;
  std::int64_t nudged_ns_ = 0;
  bool is_dialing_ = false;     // nobody was told by connect how it has ended
  Failure failure_;             // why the connection was refused, or what the peer has broken
  int error_ = 0;               // why it has ended; 0: the peer has closed
  std::int64_t looked_ns_ = 0;  // for events
  bool has_heard_end_ = false;  // the peer sends nothing more
  bool has_told_end_ = false;   // read has said so
  std::uint64_t end_note_ = 0;  // the request that has told the peer the same of us

  std::uint64_t posted_ = 0;  // requests ever
  std::uint64_t done_ = 0;    // of them, from the first on
  std::uint64_t unsignalled_bytes_ = 0;
  bool can_ask_ = false;     // the peer's device answers a read
  bool has_heard_ = false;   // anything completed since the last ask
  std::uint64_t asked_ = 0;  // the request that asks for a sign of life
  std::uint64_t notes_sent_ = 0;
  std::uint32_t credits_ = kNotes;
  std::uint32_t taken_ = 0;                        // notes of the peer, since we told it
  std::array<Note, kNotes> inbox_{};               // a ring
  std::uint32_t notes_begin_ = 0, notes_end_ = 0;  // of it, both counting on

  std::map<std::uint32_t, ibv_mr*> exposed_;  // by remote key
  std::vector<Known> known_;
  std::uint8_t* copies_ = nullptr;
  ibv_mr* copies_region_ = nullptr;
  std::array<std::uint64_t, kCopies> copied_{};  // the request that reads each
};

}  // namespace lwmq::rdma
