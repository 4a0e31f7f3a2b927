// record=FILE: every extent that passes is written to a tape (tape.h), as it passes.
#include <new>

#include "filters/way.h"
#include "store/tape.h"

namespace lwmq::filters {
namespace {

struct Record {
  std::shared_ptr<store::TapeWriter> tape;
};

lwmq_status create(const char* text, std::uint32_t way, void** out_filter) {
  Settings settings("record", text, "file");
  std::string path;
  std::uint32_t ways = 0;
  settings.take("file", &path);
  if (!take_way(settings, &ways)) return fail(LWMQ_E_INVALID, "filter record: way is send, land or both");
  Status status = settings.done();
  if (status != LWMQ_OK) return status;
  if (path.empty()) return fail(LWMQ_E_INVALID, "filter record: a file is wanted, as in record=/tmp/tape");
  if (way == 0) return store::TapeWriter::check(path);
  if ((ways & way) == 0) {
    *out_filter = nullptr;
    return LWMQ_OK;
  }
  std::shared_ptr<store::TapeWriter> tape;
  status = store::TapeWriter::open(path, &tape);
  if (status == LWMQ_OK) *out_filter = new Record{std::move(tape)};
  return status;
}

void see(void* filter, lwmq_tli_passing* passing, lwmq_tli_verdict* out_verdict) {
  store::TapeWriter& tape = *static_cast<Record*>(filter)->tape;
  out_verdict->failed = tape.append(passing->kind, passing->way, passing->data, passing->bytes) ? 0 : 1;
}

constexpr lwmq_tli_filter kRecord = {
    .size = sizeof(lwmq_tli_filter),
    .version = LWMQ_TLI_VERSION,
    .name = "record",
    .help = "record=FILE[,way=send|land|both]: appends each extent to a tape",
    .ways = LWMQ_TLI_SENDING | LWMQ_TLI_LANDING,
    .rewrites = 0,
    .create = create,
    .see = see,
    .source = nullptr,
    .destroy = [](void* filter) { delete static_cast<Record*>(filter); },
};

}  // namespace
}  // namespace lwmq::filters

using lwmq::filters::kRecord;
LWMQ_TLI_REGISTER_FILTER(kRecord);
