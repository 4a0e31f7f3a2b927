#include "stream/line.h"

#include <cstring>
#include <iterator>
#include <list>
#include <mutex>
#include <utility>

#include "channel/service_thread.h"
#include "os/clock.h"

namespace lwmq::stream {
namespace {

constexpr std::int64_t kShelfNs = 30'000'000'000;  // long enough for the next task of a job
constexpr std::size_t kShelfLines = 16;

// Lines that no writer uses now, the one used last in front. The attending service thread clears away those
// that nobody has come for, so that an idle process gives its memory back; an empty shelf wakes nobody.
class Shelf final : public channel::Served {
 public:
  // Never destroyed: threads may outlive main.
  static Shelf& instance() noexcept {
    static auto* shelf = new Shelf;
    return *shelf;
  }

  std::unique_ptr<Line> find(const std::string& address) {
    Lines old;  // closed after the lock is given back
    const std::lock_guard lock(mutex_);
    take_old(os::now_ns(), &old);
    for (auto at = lines_.begin(); at != lines_.end(); ++at) {
      if ((*at)->reach.address != address) continue;
      std::unique_ptr<Line> found = std::move(*at);
      lines_.erase(at);
      return found;
    }
    return nullptr;
  }

  void put(std::unique_ptr<Line> line) {
    Lines old;
    {
      const std::lock_guard lock(mutex_);
      lines_.push_front(std::move(line));
      if (lines_.size() > kShelfLines) old.splice(old.end(), lines_, std::prev(lines_.end()));
      if (!served_) served_ = channel::ServiceThread::attending().add(this) == LWMQ_OK;
      if (!served_) return;  // then lines go when the next writer comes
    }
    channel::ServiceThread::attending().request(this);
  }

  std::int64_t serve(std::int64_t now_ns, bool /*alone*/) noexcept override {
    Lines old;
    const std::lock_guard lock(mutex_);
    take_old(now_ns, &old);
    return lines_.empty() ? channel::kNever : lines_.back()->shelved_ns + kShelfNs + 1;
  }

 private:
  using Lines = std::list<std::unique_ptr<Line>>;

  void take_old(std::int64_t now_ns, Lines* out_old) {
    for (auto at = lines_.begin(); at != lines_.end();) {
      const auto here = at++;
      if (!(*here)->is_connected() || now_ns - (*here)->shelved_ns > kShelfNs) {
        out_old->splice(out_old->end(), lines_, here);
      }
    }
  }

  std::mutex mutex_;
  Lines lines_;
  bool served_ = false;
};

}  // namespace

Line::Line(Reach made) noexcept
    : reach(std::move(made)),
      pool(
          reach.provider, [](void* line) { static_cast<Line*>(line)->pump(); }, this) {}

Line::~Line() = default;

bool Line::is_connected() const noexcept {
  return reach.provider->state(reach.link->transport()) == LWMQ_TLI_CONNECTED;
}

Status Line::take(const char* address, std::int32_t role, const Deadline& deadline,
                  std::unique_ptr<Line>* out_line) {
  if (role != LWMQ_ROLE_SERVER) {
    *out_line = Shelf::instance().find(std::string(address, std::strcspn(address, "?")));
    if (*out_line) return LWMQ_OK;
  }
  Reach made;
  const Status status = stream::reach(address, role, deadline, &made);
  if (status == LWMQ_OK) *out_line = std::make_unique<Line>(std::move(made));
  return status;
}

Status Line::give_back(std::unique_ptr<Line> line, const Deadline& deadline) {
  // A line to an endpoint of this process would keep that endpoint alive.
  if (line->reach.endpoint || !line->is_connected()) return part(&line->reach, deadline);
  line->pool.discard_lent();
  line->room_asked = false;
  line->drained_known = false;
  line->shelved_ns = os::now_ns();
  Shelf::instance().put(std::move(line));
  return LWMQ_OK;
}

Status Line::pump() {
  std::string bytes;
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
      lwmq_tli_window* window = nullptr;
      if (!read_record(bytes, &record)) break;
      const Status status = reach.link->find_window(record.id, &window);
      if (status != LWMQ_OK) return status;
      lwmq_tli_window_info info;
      reach.provider->window_info(window, &info);
      if (info.bytes != kLapPageBytes) {
        reach.provider->window_release(window);
        break;
      }
      pool.add_lease_page(window);
      return LWMQ_OK;
    }
    case wire::StreamKind::kRoom:
      room_asked = false;
      return LWMQ_OK;
    case wire::StreamKind::kTaskCommitted:
      return LWMQ_OK;  // of a commit that was interrupted and asked again
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

}  // namespace lwmq::stream
