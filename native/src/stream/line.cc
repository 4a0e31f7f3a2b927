#include "stream/line.h"

#include <utility>

#include "base/yield_point.h"
#include "os/clock.h"
#include "os/process_name.h"
#include "stream/idle_cache.h"

namespace lwmq::stream {
namespace {

constexpr std::int64_t kIdleNs = 30'000'000'000;  // long enough for the next task of a job
constexpr std::uint64_t kIdleLines = 16;

// A line that no writer uses now.
struct IdleLine {
  std::unique_ptr<Line> line;
  [[nodiscard]] bool is_of_use() const noexcept { return line->is_connected(); }
  [[nodiscard]] std::uint64_t size() const noexcept { return 1; }
};

// Never destroyed: threads may outlive main.
IdleCache<IdleLine>& idle_lines() noexcept {
  static auto* instance = new IdleCache<IdleLine>(kIdleNs, []() noexcept { return kIdleLines; });
  return *instance;
}

}  // namespace

Line::Line(Reach made) noexcept
    : reach(std::move(made)),
      pool(
          reach.provider, reach.address,
          [](void* line) {
            const Status status = static_cast<Line*>(line)->pump();
            return status == LWMQ_OK || status == LWMQ_E_CLOSED || status == LWMQ_E_PEER_LOST;
          },
          this) {}

Line::~Line() {
  if (reach.link && !reach.own_stream) pool.keep_spares();
}

bool Line::is_connected() const noexcept { return reach.link->is_connected(); }

Status Line::take(const char* address, std::int32_t role, const Deadline& deadline, std::uint32_t stall_ms,
                  std::unique_ptr<Line>* out_line) {
  if (role != LWMQ_ROLE_SERVER) {
    auto found = idle_lines().take([&](const IdleLine& idle) { return idle.line->reach.address == address; });
    if (found) {
      *out_line = std::move(found->line);
      (*out_line)->reach.pulse = Pulse(stall_ms);
      return LWMQ_OK;
    }
    // A line to another stream gives up its windows, which are warm, for this one.
    idle_lines().take(
        [&](const IdleLine& idle) { return place_of(idle.line->reach.address) == place_of(address); });
  }
  Reach made;
  const Status status = stream::reach(address, role, deadline, stall_ms, &made);
  if (status == LWMQ_OK) *out_line = std::make_unique<Line>(std::move(made));
  return status;
}

Status Line::give_back(std::unique_ptr<Line>* line, const Deadline& deadline) {
  // A line to an endpoint of this process would keep that endpoint alive.
  if ((*line)->reach.own_stream) {
    WindowPool& pool = (*line)->pool;
    if ((*line)->reach.link && pool.has_ledger()) {
      (*line)->reach.own_stream->inherit(pool.ledger().window(), pool.place(), pool.keep_spares());
    }
    const Status status = part(&(*line)->reach, deadline);
    if (status != LWMQ_E_TIMED_OUT) line->reset();
    return status;
  }
  auto given = std::move(*line);
  if (!given->is_connected()) return LWMQ_OK;
  given->pool.discard_lent();
  given->pool.settle_staged();
  given->room_asked = false;
  given->drained_known = false;
  given->commit_unanswered = false;
  given->held_up_by.clear();
  given->readers_expelled = given->readers_lost = 0;
  given->lost_reader.clear();
  given->loss.clear();
  idle_lines().put({std::move(given)});
  return LWMQ_OK;
}

Status Line::pump() {
  std::string bytes;
  pumped_ns = os::coarse_now_ns();
  for (;;) {
    wire::StreamKind kind{};
    Status status = reach.link->receive(&kind, &bytes);
    if (status == LWMQ_E_EMPTY) return LWMQ_OK;
    if (status == LWMQ_OK) status = handle(kind, bytes);
    if (status != LWMQ_OK) return status;
  }
}

Status Line::handle(wire::StreamKind kind, const std::string& bytes) {
  switch (kind) {
    case wire::StreamKind::kLease: {
      wire::Lease record;
      LapPage page;
      if (!read_record(bytes, &record)) break;
      const Status status = reach.link->find_page(record.id, &page);
      if (status == LWMQ_OK) pool.add_lease_page(std::move(page));
      return status;
    }
    case wire::StreamKind::kRoom:
      room_asked = false;
      held_up_by.clear();
      return LWMQ_OK;
    case wire::StreamKind::kPong:
      return LWMQ_OK;  // the link has counted it
    case wire::StreamKind::kHeldUp: {
      wire::HeldUp letter;
      if (!wire::decode(bytes, &letter)) break;
      held_up_by = "reader " + letter.name + " of " + os::process_name(letter.pid);
      if (letter.expelled == 0) return LWMQ_OK;
      ++readers_expelled;
      room_asked = false;
      for (const auto& block : letter.blocks) pool.quarantine(block.slot);
      return LWMQ_OK;
    }
    case wire::StreamKind::kReaderLost: {
      wire::Text letter;
      if (!wire::decode(bytes, &letter)) break;
      ++readers_lost;
      lost_reader = letter.text;
      if (letter.status == LWMQ_E_DATA_LOSS) loss = letter.text;
      return LWMQ_OK;
    }
    case wire::StreamKind::kTaskCommitted:
      commit_unanswered = false;  // of a commit that was given up; asked again, the answer is the same
      return LWMQ_OK;
    case wire::StreamKind::kFailed: {
      wire::Text letter;
      if (!wire::decode(bytes, &letter)) break;
      return fail(told_failure(letter.status), "%s", letter.text.c_str());
    }
    case wire::StreamKind::kDrained:
      if (!read_record(bytes, &drained)) break;
      drained_known = true;
      return LWMQ_OK;
    default:
      break;
  }
  return fail(LWMQ_E_CORRUPT, "%s: the endpoint sent a message of kind %u and %zu bytes to a writer",
              reach.address.c_str(), static_cast<unsigned>(kind), bytes.size());
}

Status Line::announce(std::uint64_t window_bytes) {
  for (; !unannounced.empty(); unannounced.pop_front()) {
    const Window& window = pool.window(unannounced.front());
    wire::Window record{};
    record.index = unannounced.front();
    record.window_bytes = window_bytes;
    window.copy_id(record.id);
    LWMQ_YIELD("writer.window_made");
    Status status = reach.link->try_show(window);
    LWMQ_YIELD("writer.window_exported");
    if (status == LWMQ_OK) status = reach.link->send_record(wire::StreamKind::kWindow, record);
    if (status != LWMQ_OK) return status;
  }
  return LWMQ_OK;
}

}  // namespace lwmq::stream
