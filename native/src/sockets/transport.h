// One conversation over one connection: a mirrored lane, and the rules by which threads use the socket.
//
// The thread that waits reads. A thread that lands, waits, arms or asks for figures reads the socket itself,
// one thread at a time (in_mutex_); a thread that shows writes it (out_mutex_). The net thread (net.h) does
// what no thread of the application is there for: it sends what the socket has not taken at once, and ends
// what was closed.
//
// What is received is told to the peer in accounts: with whatever is sent, when a quarter of the peer's
// buffers have come back, and before anybody sleeps or arms. So a peer that waits for room never waits for an
// account that nobody sends.
//
// A thread that shows one message after the other and does nothing between them would make a system call for
// each. Such a burst is handed to the net thread, which sends every 0.1 ms or so what has gathered, until
// nothing has. A lone message is no burst, and whatever this end reads ends one: a question or an answer goes
// out at once. is_gathering_ says that the net thread will come; both ends of a burst are under out_mutex_:
//
//   flush   notes what was shown, and sends it unless is_gathering_; a shipped buffer is sent at once
//   net     sends what was noted and comes again; where nothing was noted, clears is_gathering_ and goes
//
// Another meeting is that of a thread that sleeps and one that reads:
//
//   sleeper   a thread adds itself to sleepers_, reads the socket once more, and then polls (the first two
//             are sequentially consistent); a thread that has read something looks at sleepers_ and rings
//             wake_
//
// A thread that sleeps in io_uring (engine=uring) keeps in_mutex_: the socket is its own until something
// comes. Others that wait meanwhile poll as above. Nothing else may wait for in_mutex_ while the connection
// lives.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/failure.h"
#include "base/status.h"
#include "lane/mirror.h"
#include "lane/outstanding.h"
#include "lwmq/lwmq_tli.h"
#include "os/identity.h"
#include "os/unique_fd.h"
#include "os/uring.h"
#include "sockets/address.h"
#include "sockets/poll.h"
#include "sockets/socket.h"
#include "sockets/wire.h"

namespace lwmq::sockets {

// What two ends have learned of each other.
struct Meeting;

class Transport : public std::enable_shared_from_this<Transport> {
 public:
  // The calling end; see lwmq_tli.h.
  static Status connect(const Family& family, const char* address, const lwmq_tli_options* options,
                        Transport** out_transport);
  Status proceed();
  // The served end, of a client that has said hello. Takes the socket unless it fails. LWMQ_E_NO_MEMORY,
  // LWMQ_E_SYSTEM.
  static Status serve(Socket* socket, const Address& address, const lwmq_tli_options& options,
                      const Hello& hello, const Place& peer, std::shared_ptr<Poll> door,
                      Transport** out_transport);

  // Says the first words of the served end. False: the client has gone.
  bool greet(const Greeting& greeting) noexcept {
    return socket_.write(&greeting, sizeof greeting) == sizeof greeting;
  }

  // The rest is the provider table; see lwmq_tli.h for each contract.
  void peer(lwmq_tli_peer* out_peer) const noexcept;
  std::int32_t state(lwmq_tli_figures* out_figures) noexcept;
  Status acquire(lwmq_tli_buffer* out_buffer) noexcept;
  Status show(lwmq_tli_buffer* buffer, std::uint64_t bytes, std::uint32_t kind) noexcept;
  std::uint64_t show_run(lwmq_tli_buffer* buffer, const lwmq_bytes* frames, std::uint64_t count,
                         std::uint32_t kind, std::uint64_t* out_bytes) noexcept;
  Status ship(lwmq_tli_buffer* buffer) noexcept;
  void abandon(lwmq_tli_buffer* buffer) noexcept;
  void flush() noexcept;
  Status land(std::uint32_t limit, std::uint32_t how, lwmq_tli_extent* out_extents,
              lwmq_tli_landing* out_landing) noexcept;
  void release(const lwmq_tli_landing& landing, std::uint32_t count) noexcept;
  void release_last(const lwmq_tli_landing& landing, std::uint32_t count) noexcept;
  Status wait(std::uint32_t what, std::uint32_t timeout_ms) noexcept;
  std::int32_t arm(std::uint32_t what) noexcept;
  std::int32_t descriptor() noexcept;
  void close(std::uint32_t lent, std::uint64_t unsent) noexcept;
  Status grant(void* memory, std::uint64_t bytes, lwmq_tli_grant* out_grant);
  void revoke(const lwmq_tli_grant& grant) noexcept;
  Status register_memory(const void* memory, std::uint64_t bytes);
  void unregister_memory(const void* memory) noexcept;
  Status push(const lwmq_tli_grant& grant, std::uint64_t offset, const lwmq_bytes* pieces,
              std::uint32_t count, std::uint64_t token);
  std::uint32_t reap(std::uint32_t limit, std::uint64_t* out_tokens) noexcept;

  // The net thread's: the socket has news. True: it is to be asked no more.
  bool serve_net(std::uint32_t events) noexcept;
  // The net thread's, while a burst lasts: sends what has gathered. False: nothing had.
  bool send_gathered() noexcept;
  // The net thread's. Returns the milliseconds until the next look; 0: nothing is on its way to the peer.
  std::uint32_t look_for_answers() noexcept;
  [[nodiscard]] int socket() const noexcept { return socket_.fd(); }

  Transport() noexcept;
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

 private:
  // Pieces on their way to the socket at a time.
  static constexpr std::uint32_t kOutMax = 32;
  static constexpr std::uint64_t kInBytes = 64 * kKiB;
  struct Out {
    lane::Mirror::Piece piece;
    std::uint64_t sent;    // of its head, its bytes and its checksum together
    std::uint64_t summed;  // of its bytes
    std::uint32_t crc;     // of its head and of those
    bool is_account;
    bool is_push;
    bool is_written;           // its bytes go to the peer's memory, and its head alone by the stream, if any
    Exposed to;                // where those of a push go
    std::uint64_t last_write;  // the number of the last write of them
    bool ends_push;            // the last piece of the push with this token
    std::uint64_t token;
  };
  // Memory of ours that the peer may write.
  struct Granted {
    std::uint8_t* memory;
    std::uint64_t bytes;
  };

  Status begin(const lwmq_tli_options& options, const Hello& hello, const std::string& place);
  Status share_memory();
  [[nodiscard]] bool is_connected() const noexcept {
    return end_.load(std::memory_order_acquire) == LWMQ_TLI_CONNECTED && os::still_ours();
  }
  void end(std::int32_t state) noexcept;
  Status over() noexcept;

  void shown(const lwmq_tli_buffer& buffer, std::uint64_t bytes) noexcept;
  // With out_mutex_.
  void note_pending() noexcept;
  bool next_out(Out* out) noexcept;
  [[nodiscard]] std::uint64_t size_of(const Out& out) const noexcept {
    if (out.is_written) return out.is_push ? 0 : sizeof out.piece.head;
    return sizeof out.piece.head + out.piece.head.bytes + (is_checked_ ? sizeof out.crc : 0);
  }
  bool write_memory(Out& out) noexcept;
  bool wait_for_room() noexcept;
  void pop_sent(std::uint64_t bytes) noexcept;
  void go_on() noexcept;
  std::size_t gather(Out& out, std::uint64_t* room, iovec* out_pieces) noexcept;
  void send_some() noexcept;
  void send_now() noexcept;
  [[nodiscard]] bool is_burst() noexcept;
  void tell_account() noexcept;
  void tell_owed() noexcept;
  // Between two looks of the net thread for answers.
  [[nodiscard]] std::uint32_t look_ms() const noexcept {
    return socket_.link() != nullptr ? socket_.wishes().silent_s * 1000 / 3 : kLookMs;
  }

  enum class Engine : std::uint8_t { kEpoll, kUringAsked, kUring };  // asked: until the first wait
  // Of a thread that waits and receives by io_uring.
  struct Sleep {
    os::Uring& ring;
    std::uint32_t what;
    std::uint32_t timeout_ms;
    bool has_read = false;  // no other thread was reading
    bool was_interrupted = false;
  };
  os::Uring* ring() noexcept;
  bool read_some(Sleep* sleep = nullptr) noexcept;
  ssize_t receive(const iovec* room, std::size_t count, bool all, const Sleep& sleep) noexcept;
  void placed(std::uint64_t bytes) noexcept;
  Status parse(std::uint64_t direct) noexcept;
  Status place(const lane::MirrorHead& head) noexcept;
  void tell_others() noexcept;
  [[nodiscard]] bool is_ready(std::uint32_t what) noexcept;
  bool look(std::uint32_t what) noexcept;
  std::shared_ptr<Poll> poll() noexcept;
  Status make_poll() noexcept;
  bool end_closing() noexcept;

  std::unique_ptr<Meeting> meeting_;  // until we have connected
  std::shared_ptr<Transport> self_;   // until everything that was lent has come back
  const Family* family_ = nullptr;
  std::string address_;
  lwmq_tli_peer peer_{};
  Socket socket_;
  lane::Mirror mirror_;
  lane::Outstanding outstanding_;
  Exposed exposed_{};                        // over a link: our mirror, for the peer
  std::atomic<bool> can_write_{false};       // over a link: the peer has told where its mirror is
  Exposed peer_mirror_{};                    // published by can_write_
  std::atomic<bool> waits_for_room_{false};  // a link had no room: whoever has read goes on to send
  std::uint32_t buffers_owed_max_ = 1;
  bool is_checked_ = false;                            // a checksum follows each piece: no TLS protects it
  std::atomic<std::int32_t> end_{LWMQ_TLI_CONNECTED};  // never back
  std::atomic<bool> is_broken_{false};                 // the peer broke the protocol
  std::atomic<bool> is_silent_{false};                 // the peer's kernel answers no more
  std::atomic<Engine> engine_{Engine::kEpoll};         // of threads that wait
  std::atomic<bool> wants_room_{false};                // the sending thread's: its last acquire found none

  std::optional<lane::LaneSender::Place> pending_;  // the sending thread's: shown, and not yet noted
  std::int64_t flushed_ns_ = 0;                     // the sending thread's: when the last flush ended
  std::atomic<std::uint32_t> burst_{0};             // flushes in a row; whoever reads begins anew
  std::atomic<bool> is_flood_{false};               // much came with the last read that found something
  bool has_shipped_ = false;                        // the sending thread's: since the last flush
  std::uint64_t unflushed_ = 0;                     // the sending thread's: bytes shown since the last flush

  std::mutex out_mutex_;  // guards what follows
  std::array<Out, kOutMax> out_;
  std::uint32_t out_begin_ = 0, out_end_ = 0;
  std::deque<Out> pushes_;        // not yet in out_
  std::uint32_t pushes_out_ = 0;  // pieces of pushes in out_
  // Tokens of pushes for reap, each with the number of its last write over a link; 0: it has gone.
  std::deque<std::pair<std::uint64_t, std::uint64_t>> pushed_;
  bool has_told_side_ = false;    // over a link: the peer knows where our mirror is
  bool has_account_out_ = false;  // an account is on its way: the next one has to wait for its memory
  bool wants_account_ = false;
  bool is_blocked_ = false;  // the socket takes nothing now: the net thread goes on
  std::atomic<bool> is_gathering_{
      false};                        // the net thread sends what is noted, soon; changes under the mutex
  int looks_for_more_ = 0;           // of the net thread, without finding any
  bool is_looked_at_ = false;        // the net thread looks whether the kernel of the peer answers
  std::uint32_t looks_in_vain_ = 0;  // without an answer since the one before
  bool is_closing_ = false;
  bool has_said_closing_ = false;
  bool has_shut_down_ = false;
  std::uint64_t unsent_ = 0;

  std::mutex in_mutex_;  // guards what follows
  Failure breach_;       // what the peer has broken the protocol with
  std::unique_ptr<std::uint8_t[]> in_;
  std::uint64_t in_begin_ = 0, in_end_ = 0;
  lane::MirrorHead head_{};
  std::uint8_t* where_ = nullptr;  // where the rest of its bytes goes
  std::uint64_t left_ = 0;         // how many
  bool has_head_ = false;
  std::uint32_t crc_ = 0;  // of head_ and of the bytes behind it that have come

  std::mutex grants_mutex_;  // guards what follows; a thread that reads may sleep with in_mutex_
  std::map<std::uint64_t, Granted> grants_;  // by number
  std::uint64_t next_grant_ = 1;
  std::atomic<std::uint64_t> landing_{0};  // the grant that a push is written to; cleared without the mutex

  std::atomic<std::uint32_t> sleepers_{0};
  os::UniqueFd wake_;

  std::mutex poll_mutex_;
  std::shared_ptr<Poll> poll_;  // under poll_mutex_: our own, or that of the listener
  bool has_own_poll_ = false;   // under poll_mutex_
  std::atomic<bool> is_armed_{false};
};

}  // namespace lwmq::sockets
