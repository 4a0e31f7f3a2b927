// How a writer, a reader, a job or a question reaches the endpoint of its address.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "os/clock.h"
#include "stream/endpoint/endpoint.h"
#include "stream/link.h"
#include "stream/pulse.h"

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

// A conversation with an endpoint about one stream. Where this process serves the stream, also a use of it: a
// client of an endpoint in its own process keeps the stream alive.
struct Reach {
  const lwmq_tli_provider* provider = nullptr;
  std::string address;  // of the stream, with the name that it has
  std::unique_ptr<Link> link;
  StreamUse own_stream;  // null: another process serves
  Pulse pulse;           // of an endpoint in another process
  // Of the process that serves, named while it lives; from the answer to an opening on.
  std::string server;
  wire::Server server_is = wire::Server::kEndpoint;

  // Serves the stream where that is this process's; else does nothing.
  void pump() const {
    if (own_stream) own_stream->pump();
  }
  // Waits for news on the link: looks and serves for a while, then sleeps. An endpoint that has been silent
  // for long is asked whether it still answers. LWMQ_E_STALLED, with a text: it lives and has not; nothing is
  // lost, and waiting again goes on where this has ended.
  Status wait(std::uint32_t timeout_ms);
};

// LWMQ_E_INVALID: `name`, of a reader, a job or a task as `what` says, is empty or too long for a message.
Status check_name(const char* address, const char* what, const char* name) noexcept;

// Connects to the endpoint and joins the stream. LWMQ_ROLE_AUTO makes what is not there: the endpoint in this
// process, the stream at the endpoint. LWMQ_ROLE_SERVER makes both. LWMQ_ROLE_CLIENT tries again until both
// are there. LWMQ_E_TIMED_OUT with a text. LWMQ_E_STALLED: a process listens, and has not answered for
// `stall_ms`; LWMQ_FOREVER waits on.
Status reach(const char* address, std::int32_t role, const Deadline& deadline, std::uint32_t stall_ms,
             Reach* out_reach);
// Joins a stream that is there, or answers LWMQ_E_EMPTY at once.
Status reach_now(const char* address, const Deadline& deadline, std::uint32_t stall_ms, Reach* out_reach);

// Whether to reach and ask anew after `*status`: an endpoint that went before it had answered has done
// nothing of what it was asked, and another one may serve the address by now. Until the deadline, after a
// short sleep; a signal ends that with LWMQ_E_INTERRUPTED.
bool ask_again(Status* status, const Deadline& deadline) noexcept;

// Makes the stream in this process. LWMQ_E_ADDRESS: it is there, or another process serves its address.
Status host(const char* address, StreamUse* out_use);

// Who serves, for a text: "process 4711 (python3)", or "this process".
std::string server_of(const Reach& reach);

// Who served, and how that has ended, as `status` of the link says: "the producer, process 4711 (python3) on
// host a, which served the address too, was killed by SIGKILL without ending the stream".
std::string how_it_was_lost(const Reach& reach, Status status);

// Closes the link. The last user of a stream of this process then waits until it has nothing unread and no
// producer, at most until the deadline: LWMQ_E_TIMED_OUT with a text. The stream is served on then, until
// `reach` is destroyed; to part again is to wait on.
Status part(Reach* reach, const Deadline& deadline);

// What becomes of messages that come before the answer. A writer must hear of every lease page: memory that
// it knows no lease of is memory that it writes again.
using OtherNews = std::function<Status(wire::StreamKind kind, const std::string& bytes)>;

// Waits for the answer of kind `expected`; hands what else comes to `other`, or passes over it where none is
// given. kFailed becomes its status and text. LWMQ_E_TIMED_OUT without a text.
Status await_answer(Reach& reach, wire::StreamKind expected, const Deadline& deadline, std::string* out_bytes,
                    const OtherNews& other = {});

// Waits for the answer to an opening. LWMQ_E_STALLED: the endpoint lives and has been silent for `stall`;
// LWMQ_E_TIMED_OUT: for a shorter while.
Status await_opened(Reach& reach, const Deadline& deadline, wire::Opened* out_answer,
                    const OtherNews& other = {});

// Sends what stayed behind, for a client that leaves. LWMQ_E_STALLED: not in that time.
Status push_backlog(const Reach& reach, std::uint32_t patience_ms = kStallMs);

}  // namespace lwmq::stream
