#include "stream/client/writer_connection.h"

#include <cstring>
#include <utility>

#include "base/yield_point.h"
#include "os/process_name.h"
#include "stream/client/idle_cache.h"
#include "stream/near.h"

namespace lwmq::stream {
namespace {

constexpr std::int64_t kKeptNs = 30'000'000'000;  // long enough for the next task of a job
constexpr std::uint64_t kKeptMax = 16;

// A provider that cannot be found is told when the ledger is made.
const lwmq_tli_provider* windows_of(const Connection& connection) noexcept {
  const lwmq_tli_provider* provider = nullptr;
  stream::windows_of(*connection.link, &provider);
  return provider;
}

// A connection that no writer uses now.
struct IdleConnection {
  std::unique_ptr<WriterConnection> connection;
  [[nodiscard]] bool is_of_use() const noexcept { return connection->link->is_connected(); }
  [[nodiscard]] std::uint64_t size() const noexcept { return 1; }
};

// Never destroyed: threads may outlive main.
IdleCache<IdleConnection>& idle_connections() noexcept {
  static auto* instance = new IdleCache<IdleConnection>(kKeptNs, []() noexcept { return kKeptMax; });
  return *instance;
}

}  // namespace

WriterConnection::WriterConnection(Connection made) noexcept
    : Connection(std::move(made)),
      pool(
          windows_of(*this), address, [](void* self) { static_cast<WriterConnection*>(self)->handle_all(); },
          this) {}

WriterConnection::~WriterConnection() {
  if (link && !own_stream) pool.keep_spares();
}

Status WriterConnection::take(const char* address, std::int32_t role, const Deadline& deadline,
                              std::uint32_t stall_ms, std::unique_ptr<WriterConnection>* out_connection) {
  if (role != LWMQ_ROLE_SERVER) {
    auto found = idle_connections().take(
        [&](const IdleConnection& idle) { return idle.connection->address == address; });
    if (found) {
      *out_connection = std::move(found->connection);
      (*out_connection)->pulse = Pulse(stall_ms);
      return LWMQ_OK;
    }
  }
  Connection made;
  const Status status = connect(address, role, deadline, stall_ms, &made);
  if (status == LWMQ_OK) *out_connection = std::make_unique<WriterConnection>(std::move(made));
  return status;
}

Status WriterConnection::give_back(std::unique_ptr<WriterConnection>* connection, const Deadline& deadline) {
  // A kept connection to a stream of this process would keep that stream alive.
  if ((*connection)->own_stream) {
    const Status status = disconnect(connection->get(), deadline);
    if (status != LWMQ_E_TIMED_OUT) connection->reset();
    return status;
  }
  auto given = std::move(*connection);
  if (!given->link->is_connected()) return LWMQ_OK;
  given->pool.discard_lent();
  given->pool.settle_staged();
  given->room_asked = false;
  given->drained_known = false;
  given->commit_unanswered = false;
  given->held_up_by.clear();
  given->readers_expelled = 0;
  idle_connections().put({std::move(given)});
  return LWMQ_OK;
}

Status WriterConnection::handle_all() {
  std::string bytes;
  for (;;) {
    wire::StreamKind kind{};
    Status status = link->receive(&kind, &bytes);
    if (status == LWMQ_E_EMPTY) return LWMQ_OK;
    if (status == LWMQ_OK) status = handle(kind, bytes);
    if (status != LWMQ_OK) return status;
  }
}

Status WriterConnection::handle(wire::StreamKind kind, const std::string& bytes) {
  switch (kind) {
    case wire::StreamKind::kLease: {
      wire::Lease record;
      if (!read_record(bytes, &record)) break;
      LapPage page;
      const Status status = link->find_page(record.id, &page);
      if (status == LWMQ_OK) pool.add_lease_page(std::move(page));
      return status;
    }
    case wire::StreamKind::kGranted: {
      wire::Granted record;
      if (!read_record(bytes, &record) || record.index >= mirrors_asked) break;
      std::memcpy(&mirrors[record.index], record.grant, sizeof record.grant);
      return LWMQ_OK;
    }
    case wire::StreamKind::kReleased: {
      wire::Released record;
      if (!is_far() || !read_record(bytes, &record) || record.slot >= kFinishedSlot) break;
      pool.release(record.slot, record.lap);
      return LWMQ_OK;
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
      held_up_by = "reader " + letter.name;
      if (letter.pid != 0 && !is_far()) held_up_by += " of " + os::process_name(letter.pid);
      if (letter.expelled == 0) return LWMQ_OK;
      ++readers_expelled;
      room_asked = false;
      for (const auto& block : letter.blocks) pool.quarantine(block.slot);
      return LWMQ_OK;
    }
    case wire::StreamKind::kTaskCommitted:
      commit_unanswered = false;  // of a commit that was given up; asked again, the answer is the same
      return LWMQ_OK;
    case wire::StreamKind::kFailed: {
      wire::Text letter;
      if (!wire::decode(bytes, &letter)) break;
      ended = told_failure(letter.status);
      ended_why = letter.text;
      return fail(ended, "%s", ended_why.c_str());
    }
    case wire::StreamKind::kDrained:
      if (!read_record(bytes, &drained)) break;
      drained_known = true;
      return LWMQ_OK;
    default:
      break;
  }
  return fail(LWMQ_E_CORRUPT, "%s: the endpoint sent a message of kind %u and %zu bytes to a writer",
              address.c_str(), static_cast<unsigned>(kind), bytes.size());
}

Status WriterConnection::announce(std::uint64_t window_bytes) {
  for (; !unannounced.empty(); unannounced.pop_front()) {
    const Window& window = pool.window(unannounced.front());
    wire::Window record{};
    record.index = unannounced.front();
    record.window_bytes = window_bytes;
    record.bytes = window.bytes();
    window.copy_id(record.id);
    if (is_far()) {
      if (record.index == mirrors_asked) {
        Status status = link->prepare(window);
        if (status == LWMQ_OK) status = link->send_record(wire::StreamKind::kWindow, record);
        if (status != LWMQ_OK) return status;
        ++mirrors_asked;
      }
      if (!mirrors.contains(record.index)) return LWMQ_E_FULL;
      continue;
    }
    LWMQ_YIELD("writer.window_made");
    Status status = link->try_show(window);
    LWMQ_YIELD("writer.window_exported");
    if (status == LWMQ_OK) status = link->send_record(wire::StreamKind::kWindow, record);
    if (status != LWMQ_OK) return status;
  }
  return LWMQ_OK;
}

Status WriterConnection::publish(const wire::Publish& record) {
  if (is_far()) {
    const auto mirror = mirrors.find(record.window);
    if (mirror == mirrors.end())
      return fail(LWMQ_E_INVALID, "%s: window %u has no mirror", address.c_str(), record.window);
    const Status status = link->push(mirror->second, record.offset,
                                     pool.window(record.window).base() + record.offset, record.bytes);
    if (status != LWMQ_OK) return status;
  }
  return link->send_record(wire::StreamKind::kPublish, record);
}

}  // namespace lwmq::stream
