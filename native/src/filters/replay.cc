// replay=FILE: what is on a tape (tape.h) lands, before or between what the peer sends.
#include <algorithm>
#include <new>

#include "filters/way.h"
#include "store/tape.h"

namespace lwmq::filters {
namespace {

constexpr std::uint64_t kMemoryRetryNs = 10'000'000;

struct Replay {
  store::TapeReader reader;
  std::uint32_t ways = 0;   // of what is on the tape
  std::uint64_t speed = 0;  // times as fast as it was recorded; 0: as fast as it is taken
  bool loaded = false;      // entry and bytes are next
  bool over = false;
  store::TapeEntry entry{};
  store::TapeBytes bytes;             // of the entry
  store::TapeBytes lent;              // of the one before
  std::uint64_t first_time_ns = 0;    // on the tape
  std::uint64_t first_played_ns = 0;  // when we began; 0: not yet

  // Loads the next entry of our ways. False: the end, or what cannot be read: checked when we began; or,
  // where it is not over, no memory.
  bool load() {
    while (!loaded && !over) {
      bool torn = false;
      const Status status = reader.next(&entry, &bytes, &torn);
      if (status == LWMQ_E_NO_MEMORY) return false;
      over = status != LWMQ_OK;
      loaded = !over && (entry.way & ways) != 0;
    }
    return loaded;
  }
};

// Reads it to its end. A tape that is torn passes where that was said.
Status check(const std::string& path, bool allow_torn) {
  store::TapeReader reader;
  Status status = reader.open(path);
  store::TapeEntry entry{};
  bool torn = false;
  while (status == LWMQ_OK) status = reader.next(&entry, nullptr, &torn);
  return status == LWMQ_E_END || (torn && allow_torn) ? LWMQ_OK : status;
}

lwmq_status create(const char* text, std::uint32_t way, void** out_filter) {
  Settings settings("replay", text, "file");
  auto made = std::make_unique<Replay>();
  std::string path;
  std::string torn = "error";
  settings.take("file", &path);
  settings.take("torn", &torn);
  settings.take("speed", &made->speed);
  if (!take_way(settings, &made->ways))
    return fail(LWMQ_E_INVALID, "filter replay: way is send, land or both");
  Status status = settings.done();
  if (status != LWMQ_OK) return status;
  if (path.empty()) return fail(LWMQ_E_INVALID, "filter replay: a file is wanted, as in replay=/tmp/tape");
  if (torn != "error" && torn != "stop")
    return fail(LWMQ_E_INVALID, "filter replay: torn is error or stop, not %s", torn.c_str());
  if (way == 0) return check(path, torn == "stop");
  status = made->reader.open(path);
  if (status == LWMQ_OK) *out_filter = made.release();
  return status;
}

std::int32_t source(void* filter, lwmq_tli_passing* out_passing, std::uint64_t* out_in_ns) {
  auto& replay = *static_cast<Replay*>(filter);
  if (!replay.load()) {
    if (!replay.over) *out_in_ns = kMemoryRetryNs;
    return 0;
  }
  if (replay.first_played_ns == 0) {
    replay.first_played_ns = out_passing->now_ns;
    replay.first_time_ns = replay.entry.time_ns;
  }
  if (replay.speed > 0) {
    // A clock that was set back in between costs no time.
    const std::uint64_t after = std::max(replay.entry.time_ns, replay.first_time_ns) - replay.first_time_ns;
    const std::uint64_t played = out_passing->now_ns - replay.first_played_ns;
    if (after / replay.speed > played) {
      *out_in_ns = after / replay.speed - played;
      return 0;
    }
  }
  std::swap(replay.lent, replay.bytes);
  replay.loaded = false;
  out_passing->data = replay.lent.data();
  out_passing->bytes = replay.lent.size();
  out_passing->kind = replay.entry.kind;
  return 1;
}

constexpr lwmq_tli_filter kReplay = {
    .size = sizeof(lwmq_tli_filter),
    .version = LWMQ_TLI_VERSION,
    .name = "replay",
    .help = "replay=FILE[,speed=N][,torn=error|stop][,way=send|land|both]: what is on the tape lands",
    .ways = LWMQ_TLI_LANDING,
    .rewrites = 0,
    .create = create,
    .see = [](void*, lwmq_tli_passing*, lwmq_tli_verdict*) {},
    .source = source,
    .destroy = [](void* filter) { delete static_cast<Replay*>(filter); },
};

}  // namespace
}  // namespace lwmq::filters

using lwmq::filters::kReplay;
LWMQ_TLI_REGISTER_FILTER(kReplay);
