// A reader and a writer's line whose endpoint says what it likes. A batch that is lent lies within a window
// that was shown; every error has a text.
#include <memory>

#include "conversation.h"
#include "stats/page.h"
#include "stream/line.h"
#include "stream/reader.h"
#include "tli/registry.h"

namespace lwmq::fuzz {
namespace {

void read(lwmq_reader& reader) {
  for (int i = 0; i < 64; ++i) {
    lwmq_batch* batch = nullptr;
    const Status status = stream::next(reader, 0, &batch);
    if (status != LWMQ_OK) {
      require(status == LWMQ_E_TIMED_OUT || status == LWMQ_E_END || is_failure(status),
              "an answer or a failure");
      return;
    }
    const lwmq_batch_info& info = batch->info;
    if (info.copied == 0) {
      require(info.data >= info.window_data && info.bytes <= info.window_bytes &&
                  info.data + info.bytes <= info.window_data + info.window_bytes,
              "a batch lies within its window");
    }
    touch(info.data, info.bytes);
    stream::release(batch);
  }
}

}  // namespace
}  // namespace lwmq::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lwmq;
  using namespace lwmq::fuzz;
  constexpr char kAddress[] = "loop://client-fuzz";
  constexpr std::size_t kStepsMax = 100;
  const lwmq_tli_options options = stream::control_options();
  lwmq_tli_listener* listener = nullptr;
  lwmq_tli_transport* ours = nullptr;
  lwmq_tli_transport* theirs = nullptr;
  require(loop()->listener->listen(kAddress, &options, &listener) == LWMQ_OK &&
              lwmq::tli::connect(*loop(), kAddress, options, 1000, &ours) == LWMQ_OK &&
              loop()->listener->accept(listener, &theirs) == LWMQ_OK,
          "both ends meet");
  stream::Reach reach;
  reach.provider = loop();
  reach.address = kAddress;
  reach.link = std::make_unique<stream::Link>(loop(), ours);
  Input input(data, size);
  {
    stream::Link endpoint(loop(), theirs);
    if (input.take<std::uint8_t>() % 2 == 0) {
      lwmq_reader reader;
      reader.reach = std::move(reach);
      reader.address = kAddress;
      reader.entry = std::make_shared<stats::Entry>();
      reader.credit = 8;
      for (std::size_t step = 0; step < kStepsMax && !input.empty(); ++step) {
        say(endpoint, input);
        read(reader);
        hear(endpoint);
      }
      stream::close(reader, 0);
    } else {
      stream::Line line(std::move(reach));
      for (std::size_t step = 0; step < kStepsMax && !input.empty(); ++step) {
        say(endpoint, input);
        if (line.pump() != LWMQ_OK) break;
        hear(endpoint);
      }
    }
  }
  loop()->listener->close(listener);
  return 0;
}
