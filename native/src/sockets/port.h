// A port of this process, and the listeners behind it, which names tell apart.
//
// Handshakes are state machines: each look advances those whose sockets have news and goes on, so that a
// client that is slow, silent or wrong holds up nobody.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/status.h"
#include "lwmq/lwmq_tli.h"
#include "os/unique_fd.h"
#include "sockets/address.h"
#include "sockets/poll.h"
#include "sockets/proof.h"
#include "sockets/socket.h"
#include "sockets/wire.h"

namespace lwmq::sockets {

class Listener;
class Transport;

class Port {
 public:
  // The port that is bound at the host and number of `address`, or a new one. LWMQ_E_ADDRESS: another process
  // has bound the port, this process serves it in another way, or the host is not ours. LWMQ_E_DENIED: other
  // hosts would reach the port, and `own` does not allow that.
  static Status get(const Address& address, const Own& own, std::shared_ptr<Port>* out_port);
  ~Port();

  // LWMQ_E_ADDRESS: another listener has that name.
  Status add(Listener* listener);
  void remove(Listener* listener);
  // The net thread's: advances the handshakes whose sockets have news.
  void drive();
  // Advances those that waited for room. Any thread.
  void advance_all();
  [[nodiscard]] int descriptor() const noexcept { return poll_.fd(); }
  [[nodiscard]] std::uint32_t number() const noexcept { return family_->port(place_); }

 private:
  struct Pending {
    Socket socket;
    Place peer;
    std::int64_t deadline_ns;
    std::uint64_t heard = 0;
    Opening opening{};  // over a socket, the hello alone
    Reply answer{};     // over a socket, the greeting alone
    Prover prover;
    Proof proof{};            // the client's
    bool is_greeted = false;  // over a link: the client has yet to prove itself
    bool is_secure = false;   // the handshake of TLS is over
    bool is_plain = false;    // the client speaks no TLS, and the port does
    bool is_refused = false;  // the client was told, and closes
  };

  Status find_place(const Address& address);
  Status check_reach(const Address& address, const Own& own) const noexcept;
  Status check_shared(const Address& address, const Own& own) const noexcept;
  Status bind(const Address& address, const Own& own);
  void let_in();
  bool accept(Pending* out_pending);
  bool take_steps(Pending* pending);
  bool advance(Pending* pending);
  Status secure(Pending* pending);
  void refuse(Pending* pending, Status why);
  Status check(Pending* pending, Listener* asked_for);
  bool answer(Pending* pending, Listener* asked_for);
  bool await_proof(Pending* pending, Listener* asked_for);
  void open(Pending* pending, Listener* asked_for);

  std::string key_;
  const Family* family_ = nullptr;
  Place place_;
  os::TlsFiles files_;
  std::shared_ptr<const os::TlsCredentials> credentials_;  // null: in clear
  Poll poll_;
  std::mutex mutex_;  // guards what follows
  os::UniqueFd socket_;
  std::unique_ptr<Door> door_;      // in place of the socket: its clients come over links
  std::map<int, Pending> pending_;  // by socket
  std::int64_t next_look_ns_ = 0;   // for those that are late
  std::map<std::string, Listener*> listeners_;
};

class Listener {
 public:
  static Status open(const Family& family, const char* address, const lwmq_tli_options* options,
                     Listener** out_listener);
  Status accept(Transport** out_transport);
  [[nodiscard]] int descriptor() const noexcept { return poll_->fd(); }
  [[nodiscard]] const char* text() const noexcept { return bound_.c_str(); }
  void close();

  // For the port, of a client that has asked for us.
  [[nodiscard]] const Address& address() const noexcept { return address_; }
  [[nodiscard]] const lwmq_tli_options& options() const noexcept { return options_; }
  [[nodiscard]] const Own& own() const noexcept { return own_; }
  [[nodiscard]] const std::shared_ptr<Poll>& poll() const noexcept { return poll_; }
  // As many clients are ready as may wait to be accepted.
  [[nodiscard]] bool is_full();
  void put(Transport* transport);
  void note_refused(Status why);

 private:
  Listener(Address address, const lwmq_tli_options& options)
      : address_(std::move(address)), options_(options), poll_(std::make_shared<Poll>()) {}

  const Address address_;
  const lwmq_tli_options options_;
  Own own_;            // what the settings say of those who are served here
  std::string bound_;  // the address with the port that the system has chosen
  std::shared_ptr<Port> port_;
  const std::shared_ptr<Poll> poll_;
  std::mutex mutex_;  // guards what follows
  std::deque<Transport*> ready_;
  std::deque<std::pair<Status, std::string>> refused_;  // told by accept; the oldest are forgotten
};

}  // namespace lwmq::sockets
