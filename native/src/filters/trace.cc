// trace, trace=/tmp/seen.txt: one line for each extent on its way, with its first bytes.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

#include "base/status.h"
#include "filters/way.h"

namespace lwmq::filters {
namespace {

constexpr std::uint64_t kShownMax = 64;

struct Trace {
  std::FILE* file = nullptr;  // null: standard error
  std::uint64_t shown = 16;   // bytes of each
  std::uint64_t number = 0;
};

lwmq_status create(const char* text, std::uint32_t way, void** out_filter) {
  Settings settings("trace", text, "file");
  std::string path;
  Trace made;
  std::uint32_t ways = 0;
  settings.take("file", &path);
  settings.take("bytes", &made.shown);
  if (!take_way(settings, &ways)) return fail(LWMQ_E_INVALID, "filter trace: way is send, land or both");
  const Status status = settings.done();
  if (status != LWMQ_OK || way == 0) return status;
  if (made.shown > kShownMax) made.shown = kShownMax;
  if ((ways & way) == 0) {
    *out_filter = nullptr;
    return LWMQ_OK;
  }
  if (!path.empty()) {
    made.file = std::fopen(path.c_str(), "ae");
    if (made.file == nullptr) return fail_errno(LWMQ_E_SYSTEM, errno, "filter trace: %s", path.c_str());
    std::setvbuf(made.file, nullptr, _IOLBF, 4096);  // lines of both ways stay whole
  }
  *out_filter = new Trace(made);
  return LWMQ_OK;
}

void see(void* filter, lwmq_tli_passing* passing, lwmq_tli_verdict* /*out_verdict*/) {
  auto& trace = *static_cast<Trace*>(filter);
  std::uint8_t bytes[kShownMax];
  const std::uint64_t shown = passing->bytes < trace.shown ? passing->bytes : trace.shown;
  if (shown > 0) std::memcpy(bytes, passing->data, shown);
  char hex[2 * kShownMax + 1] = "";
  for (std::uint64_t i = 0; i < shown; ++i) std::snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
  std::fprintf(trace.file != nullptr ? trace.file : stderr,
               "%" PRIu64 ".%09" PRIu64 " %d %s %" PRIu64 " kind %u bytes %" PRIu64 " %s%s\n",
               passing->now_ns / 1'000'000'000, passing->now_ns % 1'000'000'000, getpid(),
               passing->way == LWMQ_TLI_SENDING ? "send" : "land", ++trace.number, passing->kind,
               passing->bytes, hex, shown < passing->bytes ? ".." : "");
}

void destroy(void* filter) {
  auto* trace = static_cast<Trace*>(filter);
  if (trace->file != nullptr) std::fclose(trace->file);
  delete trace;
}

constexpr lwmq_tli_filter kTrace = {
    .size = sizeof(lwmq_tli_filter),
    .version = LWMQ_TLI_VERSION,
    .name = "trace",
    .help = "trace[=FILE][,bytes=N][,way=send|land|both]: a line for each extent, to FILE or standard error",
    .ways = LWMQ_TLI_SENDING | LWMQ_TLI_LANDING,
    .rewrites = 0,
    .create = create,
    .see = see,
    .source = nullptr,
    .destroy = destroy,
};

}  // namespace
}  // namespace lwmq::filters

using lwmq::filters::kTrace;
LWMQ_TLI_REGISTER_FILTER(kTrace);
