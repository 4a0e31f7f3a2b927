// An endpoint and three clients that say what they like. It ends their conversations or answers; it serves an
// honest question at the end.
#include <memory>

#include "conversation.h"
#include "stream/client.h"
#include "stream/question.h"
#include "tli/registry.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lwmq;
  using namespace lwmq::fuzz;
  constexpr char kAddress[] = "loop://endpoint-fuzz";
  constexpr std::size_t kStepsMax = 100;
  stream::StreamUse served;
  require(stream::host(kAddress, &served) == LWMQ_OK, "the address is free");
  std::unique_ptr<stream::Link> clients[3];
  const lwmq_tli_options options = stream::control_options();
  Input input(data, size);
  for (std::size_t step = 0; step < kStepsMax && !input.empty(); ++step) {
    const auto choice = input.take<std::uint8_t>();
    auto& client = clients[choice % 3];
    if (choice >= 250) client.reset();  // leaves, in order
    if (!client) {
      lwmq_tli_transport* transport = nullptr;
      require(lwmq::tli::connect(*loop(), kAddress, options, 1000, &transport) == LWMQ_OK,
              "the endpoint is there");
      client = std::make_unique<stream::Link>(loop(), transport);
      // All but some join before, so that more than the first message is met.
      if (choice % 8 != 0) client->send_letter(wire::StreamKind::kJoin, wire::Join{});
    }
    say(*client, input);
    served->pump();
    hear(*client);
  }
  std::unique_ptr<stream::Description> description;
  Status asked;
  do {
    asked = stream::describe(kAddress, false, 60'000, &description);
  } while (asked == LWMQ_E_INTERRUPTED);  // by libFuzzer's alarm
  require(asked == LWMQ_OK, last_error());
  for (auto& client : clients) client.reset();
  return 0;
}
