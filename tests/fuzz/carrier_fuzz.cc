// A carrier's crossings, and an endpoint behind them, with two remote clients that are honest for some steps
// and say what they like in others. A batch that reaches a reader lies within the mirror that it has made;
// the endpoint serves an honest question at the end.
//
// The network is a transport inside this process, which a provider of its own lets push: what is pushed
// outside of a grant is dropped, where a connection would end.
#include <unistd.h>

#include <map>
#include <memory>
#include <optional>

#include "base/checked.h"
#include "conversation.h"
#include "stream/carrier/crossing.h"
#include "stream/client/connection.h"
#include "tli/registry.h"

namespace lwmq::fuzz {
namespace {

constexpr char kEndpoint[] = "loop://carrier-fuzz";
constexpr char kNetwork[] = "loop://carrier-fuzz-network";
constexpr std::uint64_t kWindowBytes = 4096;
constexpr std::size_t kStepsMax = 100;

struct Granted {
  lwmq_tli_transport* by;
  std::uint8_t* memory;
  std::uint64_t bytes;
};
std::map<std::uint64_t, Granted>& grants() {
  static std::map<std::uint64_t, Granted> all;
  return all;
}

lwmq_status let_push(lwmq_tli_transport* by, void* memory, std::uint64_t bytes, lwmq_tli_grant* out_grant) {
  static std::uint64_t last = 0;
  grants()[++last] = {by, static_cast<std::uint8_t*>(memory), bytes};
  *out_grant = {};
  out_grant->bytes = bytes;
  std::memcpy(out_grant->key, &last, sizeof last);
  return LWMQ_OK;
}

lwmq_status push(lwmq_tli_transport* /*from*/, const lwmq_tli_grant* grant, std::uint64_t offset,
                 const lwmq_bytes* pieces, std::uint32_t count, std::uint64_t /*token*/) {
  std::uint64_t number = 0;
  std::memcpy(&number, grant->key, sizeof number);
  const auto found = grants().find(number);
  for (std::uint32_t i = 0; i < count; offset += pieces[i++].bytes) {
    if (found == grants().end() || !fits(offset, pieces[i].bytes, found->second.bytes)) break;
    std::memcpy(found->second.memory + offset, pieces[i].data, pieces[i].bytes);
  }
  return LWMQ_OK;
}

void close(lwmq_tli_transport* transport, std::uint32_t lent, std::uint64_t unsent) {
  std::erase_if(grants(), [transport](const auto& grant) { return grant.second.by == transport; });
  loop()->transport->close(transport, lent, unsent);
}

const lwmq_tli_provider* network() {
  static const lwmq_tli_transport_table transport = [] {
    lwmq_tli_transport_table table = *loop()->transport;
    table.close = close;
    return table;
  }();
  static const lwmq_tli_memory_table memory = [] {
    lwmq_tli_memory_table table{};
    table.grant = let_push;
    table.push = push;
    table.reap = [](lwmq_tli_transport*, std::uint32_t, std::uint64_t*) -> std::uint32_t { return 0; };
    return table;
  }();
  static const lwmq_tli_provider provider = [] {
    lwmq_tli_provider table = *loop();
    table.transport = &transport;
    table.memory = &memory;
    return table;
  }();
  return &provider;
}

lwmq_tli_transport* connect(const char* address) {
  lwmq_tli_transport* made = nullptr;
  Status status = LWMQ_E_EMPTY;
  while (status == LWMQ_E_EMPTY) {  // too many wait to be accepted
    status = tli::connect(*loop(), address, stream::control_options(), 60'000, &made);
    if (status == LWMQ_E_EMPTY) usleep(100);
  }
  require(status == LWMQ_OK, last_error());
  return made;
}

struct Client {
  Client() {
    const lwmq_tli_options options = stream::control_options();
    lwmq_tli_listener* listener = nullptr;
    require(loop()->listener->listen(kNetwork, &options, &listener) == LWMQ_OK, last_error());
    lwmq_tli_transport* const ours = connect(kNetwork);
    lwmq_tli_transport* theirs = nullptr;
    require(loop()->listener->accept(listener, &theirs) == LWMQ_OK, last_error());
    lwmq_tli_transport* const near = connect(kEndpoint);
    loop()->listener->close(listener);
    link = std::make_unique<stream::Link>(network(), ours);
    crossing = std::make_unique<stream::Crossing>(std::make_unique<stream::Link>(network(), theirs),
                                                  std::make_unique<stream::Link>(loop(), near), "tcp://fuzz",
                                                  "ipc://fuzz");
  }

  void say_honestly(Input& input) {
    switch (input.take<std::uint8_t>() % 8) {
      case 0:
        link->send_letter(wire::StreamKind::kJoin, wire::Join{});
        break;
      case 1: {
        wire::OpenProducer letter;
        letter.window_bytes = kWindowBytes;
        letter.schema = input.take_bytes(input.take<std::uint8_t>());
        link->send_letter(wire::StreamKind::kOpenWriter, letter);
        break;
      }
      case 2: {
        wire::Window record{};
        record.index = windows++;
        record.bytes = record.window_bytes = kWindowBytes;
        link->send_record(wire::StreamKind::kWindow, record);
        break;
      }
      case 3: {  // a batch, of bytes that are none
        wire::Publish record{};
        record.slot = input.take<std::uint8_t>();
        record.lap = 1 + input.take<std::uint8_t>() % 2;
        record.offset = 64 * (input.take<std::uint8_t>() % 64);
        record.rows = 1;
        record.flags = input.take<std::uint8_t>() % 2;
        const std::string bytes = input.take_bytes(input.take<std::uint8_t>());
        record.bytes = bytes.size();
        if (mirror) link->push(*mirror, record.offset, bytes.data(), bytes.size());
        link->send_record(wire::StreamKind::kPublish, record);
        break;
      }
      case 4: {
        wire::OpenReader letter;
        letter.name = "reader", letter.credit = 1 + input.take<std::uint8_t>() % 8;
        letter.has_columns = input.take<std::uint8_t>() % 2;
        letter.columns = {{"a"}, {"b"}};
        link->send_letter(wire::StreamKind::kOpenReader, letter);
        break;
      }
      case 5:
        link->send_record(wire::StreamKind::kReleased,
                          wire::Released{last.pool, last.block.slot, last.block.lap});
        break;
      case 6:
        link->send_record(wire::StreamKind::kConsumed, wire::Consumed{0, 0, last.seq});
        break;
      default:
        link->send_record(wire::StreamKind::kWantRoom, wire::WantRoom{kWindowBytes});
    }
  }

  // Takes what the carrier says, and makes mirrors of what it announces.
  void hear() {
    wire::StreamKind kind{};
    std::string bytes;
    while (link->receive(&kind, &bytes) == LWMQ_OK) {
      wire::Granted granted;
      wire::Window window;
      if (kind == wire::StreamKind::kGranted && stream::read_record(bytes, &granted)) {
        std::memcpy(&mirror.emplace(), granted.grant, sizeof granted.grant);
      } else if (kind == wire::StreamKind::kWindow && stream::read_record(bytes, &window)) {
        stream::Window made;
        require(stream::Window::create(loop(), window.bytes, &made) == LWMQ_OK, "there is memory");
        link->grant(made, window.pool, window.index);
        landings[{window.pool, window.index}] = std::move(made);
      } else if (kind == wire::StreamKind::kBatch && stream::read_record(bytes, &last)) {
        const auto found = landings.find({last.pool, last.block.window});
        require(found != landings.end() && fits(last.block.offset, last.block.bytes, found->second.bytes()) &&
                    last.pushed <= last.block.bytes,
                "a batch lies within the mirror of its window");
        touch(found->second.base() + last.block.offset, last.block.bytes);
      }
    }
  }

  std::uint32_t windows = 0;             // announced
  std::optional<lwmq_tli_grant> mirror;  // of the last of them
  wire::Batch last{};
  std::map<std::pair<std::uint64_t, std::uint32_t>, stream::Window> landings;
  std::unique_ptr<stream::Link> link;
  std::unique_ptr<stream::Crossing> crossing;
};

}  // namespace
}  // namespace lwmq::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lwmq;
  using namespace lwmq::fuzz;
  stream::StreamUse served;
  require(stream::host(kEndpoint, &served) == LWMQ_OK, "the address is free");
  std::optional<Client> clients[2];
  Input input(data, size);
  for (std::size_t step = 0; step < kStepsMax && !input.empty(); ++step) {
    const auto choice = input.take<std::uint8_t>();
    auto& client = clients[choice % 2];
    if (choice >= 250 || (client && client->crossing->is_over())) client.reset();
    if (!client) {
      client.emplace();
      // All but some join before, so that more than the first message is met.
      if (choice % 16 > 1) client->link->send_letter(wire::StreamKind::kJoin, wire::Join{});
    }
    if (choice < 200) {
      client->say_honestly(input);
    } else {
      const auto kind = static_cast<wire::StreamKind>(input.take<std::uint8_t>() & 63);
      const std::string bytes = input.take_bytes(input.take<std::uint16_t>());
      client->link->send(kind, bytes.data(), bytes.size());
    }
    for (int i = 0; i < 2; ++i) {
      for (auto& one : clients) {
        if (one) one->crossing->pump();
      }
      served->pump();
    }
    for (auto& one : clients) {
      if (one) one->hear();
    }
  }
  require_answer(kEndpoint);
  for (auto& client : clients) client.reset();
  return 0;
}
