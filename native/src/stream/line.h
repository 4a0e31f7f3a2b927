// What a writer needs to reach its endpoint: a conversation and a pool of windows.
//
// A line outlives its writer: it is kept for the next writer of this process at the same address, so that the
// tasks of a Spark job, one after the other, write into memory that is mapped and warm.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "base/status.h"
#include "stream/client.h"
#include "stream/window_pool.h"

namespace lwmq::stream {

class Line {
 public:
  explicit Line(Reach reach) noexcept;
  ~Line();

  // Takes a line from the idle ones, or makes one.
  static Status take(const char* address, std::int32_t role, const Deadline& deadline, std::uint32_t stall_ms,
                     std::unique_ptr<Line>* out_line);
  // Puts it back where that is of use; else parts from the endpoint. Takes the line, but with
  // LWMQ_E_TIMED_OUT (see part): then it is good for nothing else than to be given back again.
  static Status give_back(std::unique_ptr<Line>* line, const Deadline& deadline);

  // Handles what has come, without waiting; or one message that the caller has received.
  Status pump();
  Status handle(wire::StreamKind kind, const std::string& bytes);
  // Shows the endpoint the windows that it has not been shown. LWMQ_E_FULL: not now; nothing may be published
  // before. Never waits.
  Status announce(std::uint64_t window_bytes);
  [[nodiscard]] bool is_connected() const noexcept;

  Reach reach;
  WindowPool pool;
  bool room_asked = false;
  bool drained_known = false;
  bool commit_unanswered = false;         // CommitTask was sent
  std::deque<std::uint32_t> unannounced;  // windows, in order
  std::string held_up_by;                 // the reader that keeps us waiting, as the endpoint has told
  std::uint64_t readers_expelled = 0;     // for this writer's sake
  std::uint64_t readers_lost = 0;         // that died before they had read everything
  std::string lost_reader;                // what befell the last of them, and was not asked for yet
  std::string loss;                       // batches of this writer that went with them; empty: none
  std::int64_t pumped_ns = 0;
  wire::Drained drained{};
};

}  // namespace lwmq::stream
