// How a writer, a reader, a job or a question connects to the endpoint of its address.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "os/clock.h"
#include "stream/client/pulse.h"
#include "stream/endpoint/endpoint.h"
#include "stream/link.h"
#include "tli/own_settings.h"

namespace lwmq::stream {

// A point in time that several waits share.
class Deadline {
 public:
  explicit Deadline(std::uint32_t timeout_ms) noexcept
      : at_ns_(timeout_ms == LWMQ_FOREVER ? -1 : os::now_ns() + std::int64_t{timeout_ms} * 1'000'000) {}
  [[nodiscard]] bool over() const noexcept { return at_ns_ >= 0 && os::now_ns() >= at_ns_; }
  // Milliseconds left, rounded up; at most `limit_ms`.
  [[nodiscard]] std::uint32_t left_ms(std::uint32_t limit_ms = LWMQ_FOREVER) const noexcept;

 private:
  std::int64_t at_ns_;
};

// A conversation with an endpoint. Where this process serves the stream, also a use of it: a client of an
// endpoint in its own process keeps the stream alive.
struct Connection {
  const lwmq_tli_provider* named = nullptr;     // which the address names
  std::shared_ptr<const tli::OwnSettings> own;  // for `named`; null: none
  const lwmq_tli_provider* provider = nullptr;  // of the link: `named`, or that of this host's own addresses
  std::string address;                          // of the stream, with the name that it has
  std::unique_ptr<Link> link;
  StreamUse own_stream;  // null: another process serves
  Pulse pulse;           // of an endpoint in another process

  // The endpoint is reached over a transport that shares no windows.
  [[nodiscard]] bool is_far() const noexcept { return link && link->is_far(); }

  // Serves the stream where that is this process's; else does nothing.
  void serve() const {
    if (own_stream) own_stream->pump();
  }
  // Waits for news on the link: looks and serves for a while, then sleeps. An endpoint that has been silent
  // for long is asked whether it still answers. LWMQ_E_STALLED, with a text: it lives and has not; nothing is
  // lost, and waiting again goes on where this has ended.
  Status wait(std::uint32_t timeout_ms);
  // For a text: "process 4711 (python3)", or "this process".
  [[nodiscard]] std::string server() const;
};

// LWMQ_E_INVALID: `name`, of a reader, a job or a task as `what` says, is empty or too long for a message.
Status check_name(const char* address, const char* what, const char* name) noexcept;

// Connects to the endpoint and joins the stream. LWMQ_ROLE_AUTO makes what is not there: the endpoint in this
// process, the stream at the endpoint. LWMQ_ROLE_SERVER makes both. LWMQ_ROLE_CLIENT tries again until both
// are there. LWMQ_E_TIMED_OUT with a text. LWMQ_E_STALLED: a process listens, and has not answered for
// `stall_ms`; LWMQ_FOREVER waits on.
Status connect(const char* address, std::int32_t role, const Deadline& deadline, std::uint32_t stall_ms,
               Connection* out_connection);
// Joins a stream that is there, or answers LWMQ_E_EMPTY at once.
Status connect_now(const char* address, const Deadline& deadline, std::uint32_t stall_ms,
                   Connection* out_connection);

// Whether to connect and ask anew after `*status`: an endpoint that went before it had answered has done
// nothing of what it was asked, and another one may serve the address by now. Until the deadline, after a
// short sleep; a signal ends that with LWMQ_E_INTERRUPTED.
bool ask_again(Status* status, const Deadline& deadline) noexcept;

// Makes the stream in this process. LWMQ_E_ADDRESS: it is there, or another process serves its address.
Status host(const char* address, StreamUse* out_use);

// Serves the streams of the endpoint that `use` is of also at `address`, of a network. LWMQ_E_ADDRESS:
// another process serves it. LWMQ_E_UNSUPPORTED: of no network.
Status listen(const StreamUse& use, const char* address);

// Closes the link. The last user of a stream of this process then waits as StreamUse::leave says, at most
// until the deadline: LWMQ_E_TIMED_OUT with a text. The stream is served on then, until the connection is
// destroyed; to disconnect again is to wait on.
Status disconnect(Connection* connection, const Deadline& deadline);

// Takes a message that comes before an answer that is waited for. A writer must hear of every lease page:
// memory of which it knows no lease is memory that it writes again.
using OtherMessages = std::function<Status(wire::StreamKind kind, const std::string& bytes)>;

// Waits for the answer of kind `expected`; hands what else comes to `other`, or passes over it where none is
// given. kFailed becomes its status and text. LWMQ_E_TIMED_OUT without a text.
Status await_answer(Connection& connection, wire::StreamKind expected, const Deadline& deadline,
                    std::string* out_bytes, const OtherMessages& other = {});

// Waits for the answer to an opening. LWMQ_E_STALLED: the endpoint lives and has been silent for `stall`;
// LWMQ_E_TIMED_OUT: for a shorter while.
Status await_opened(Connection& connection, const Deadline& deadline, wire::Opened* out_answer,
                    const OtherMessages& other = {});

// Sends what stayed behind, for a client that leaves. LWMQ_E_STALLED: not in that time.
Status push_backlog(const Connection& connection, std::uint32_t patience_ms = kStallMs);

}  // namespace lwmq::stream
