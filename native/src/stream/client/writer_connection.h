// A writer's connection to its endpoint, with the pool of windows that it writes into.
//
// The connection outlives its writer: it is kept for the next writer of this process at the same address, so
// that the tasks of a Spark job, one after the other, write into memory that is mapped and warm.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "stream/client/connection.h"
#include "stream/client/window_pool.h"

namespace lwmq::stream {

struct WriterConnection : Connection {
  explicit WriterConnection(Connection made) noexcept;
  ~WriterConnection();

  // Takes a connection that was kept, or makes one.
  static Status take(const char* address, std::int32_t role, const Deadline& deadline, std::uint32_t stall_ms,
                     std::unique_ptr<WriterConnection>* out_connection);
  // Keeps the connection where that is of use; else disconnects. Takes it, except with LWMQ_E_TIMED_OUT (see
  // disconnect): then it is good for nothing but to be given back again.
  static Status give_back(std::unique_ptr<WriterConnection>* connection, const Deadline& deadline);

  // Handles the messages that have come, without waiting.
  Status handle_all();
  // Handles one that the caller has received.
  Status handle(wire::StreamKind kind, const std::string& bytes);
  // Shows the endpoint the windows that it has not been shown. LWMQ_E_FULL: not now, or their mirrors are not
  // there yet; nothing may be published before. Never waits.
  Status announce(std::uint64_t window_bytes);
  // Publishes a block, over a far link behind its bytes.
  Status publish(const wire::Publish& record);

  WindowPool pool;
  bool room_asked = false;
  bool drained_known = false;
  bool commit_unanswered = false;         // CommitTask was sent
  std::deque<std::uint32_t> unannounced;  // windows, in order
  // Of a far link: windows whose mirrors were asked for, and by index those that may be written.
  std::uint32_t mirrors_asked = 0;
  std::map<std::uint32_t, lwmq_tli_grant> mirrors;
  std::string held_up_by;              // the reader that keeps this writer waiting, as the endpoint says
  std::uint64_t readers_expelled = 0;  // because they kept this writer waiting
  wire::Drained drained{};
  Status ended = LWMQ_OK;  // why the endpoint has ended this conversation, as it said
  std::string ended_why;
};

}  // namespace lwmq::stream
