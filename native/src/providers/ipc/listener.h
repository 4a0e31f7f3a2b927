// The serving end of an address. Handshakes are state machines: accept gives each of them a glance and goes
// on, so that a client that is slow, silent or wrong holds up nobody.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/status.h"
#include "lwmq/lwmq_tli.h"
#include "providers/ipc/address.h"
#include "providers/ipc/door.h"
#include "providers/ipc/transport.h"

namespace lwmq::ipc {

class Listener {
 public:
  static Status open(const char* address, const lwmq_tli_options* options, Listener** out_listener);
  Status accept(Transport** out_transport);
  // Lets go of those who wait for an answer no more.
  void tend();
  [[nodiscard]] int fd() const noexcept { return door_->fd(); }
  // Takes the listener; its transports live on.
  void close();

  // One glance at everything that is under way: whether somebody is ready or has gone by it. Any thread.
  bool drive();

  // Drives the listener at `socket_name` if it is one of this process: a client that waits for a listener on
  // its own thread would wait for ever. False: it is not ours.
  static bool drive_local(const std::string& socket_name);

 private:
  struct Close {
    void operator()(Transport* transport) const noexcept { transport->close(0, 0); }
  };
  // Made for a client that has our answer. One that comes to nothing is a peer that has closed.
  using Answered = std::unique_ptr<Transport, Close>;
  struct Pending {
    os::UniqueFd socket;
    os::PeerCredentials credentials;
    std::int64_t deadline_ns;
    Answered answered;
  };

  Listener(Address address, const lwmq_tli_options& options)
      : address_(std::move(address)), options_(options) {}
  ~Listener() = default;

  // From then on it may give way.
  static std::int64_t stalled_ns(const Pending& pending) noexcept {
    return pending.deadline_ns - kHandshakeNs + kStalledNs;
  }
  bool has_ready();
  void set_timer();
  template <typename IsOver>
  void end_where(IsOver&& is_over);
  void advance_all();
  bool make_place();
  bool let_in(std::uint32_t* places);
  bool turn_away(Status why);
  void refuse(const Pending& pending, Status why);
  void note_refused(const Pending& pending, Status why);
  bool advance(Pending* pending);
  [[nodiscard]] bool may_answer() const;
  bool hear(Pending* pending, Status status, const AnyMessage& hello, os::Received* received);
  void finish(Pending* pending, Status status, const AnyMessage& met, const os::Received& received);
  Status answer(Pending* pending, const AnyMessage& hello, os::Received* received);
  Status meet(Pending* pending, Transport** out_transport);

  const Address address_;
  const lwmq_tli_options options_;
  std::shared_ptr<Door> door_;
  std::mutex mutex_;  // guards what follows
  os::UniqueFd socket_;
  OwnFile file_;
  std::deque<Pending> pending_;  // connected, and not through the handshake; oldest first
  os::UniqueFd timer_;           // behind the door; there while one of them has a deadline
  // Through the handshake, not yet accepted. A client of this process that put some there rings at the door:
  // its own look has taken the news from whoever polls it.
  std::deque<Transport*> ready_;
  // Told that they may not, for whoever accepts to hear of; the oldest are forgotten where nobody does.
  std::deque<std::pair<Status, std::string>> refused_;
  bool said_why_not_ = false;  // that this process may not accept
};

}  // namespace lwmq::ipc
