// A transport that carries one way, as multicast does: accepted where no more is needed, refused where it is.
//
// `one-way://name` is loop:// whose connecting ends cannot send and whose accepted ends cannot receive.
#include <mutex>
#include <set>

#include "conformance/channel_fixture.h"
#include "conformance/providers.h"
#include "conformance/renamed.h"
#include "lwmq/lwmq_tli.h"

namespace lwmq::conformance {
namespace {

constexpr char kScheme[] = "one-way://";
constexpr char kBelow[] = "loop://";

using OneWay = Renamed<kScheme, kBelow>;
constexpr lwmq_tli_provider& one_way = OneWay::provider;
std::mutex mutex;
std::set<lwmq_tli_transport*> accepted;

bool was_accepted(lwmq_tli_transport* transport) {
  const std::lock_guard lock(mutex);
  return accepted.count(transport) != 0;
}

const lwmq_tli_transport_table& below() { return *OneWay::below().transport; }

const bool filled = [] {
  OneWay::fill("one-way");
  one_way.limits = [](const char* address, lwmq_limits* out_limits) -> lwmq_status {
    const lwmq_status status = OneWay::limits(address, out_limits);
    out_limits->capabilities = LWMQ_CAN_SEND | LWMQ_CAN_RECEIVE | LWMQ_IS_ORDERED | LWMQ_IS_ONE_WAY;
    return status;
  };
  one_way.memory = nullptr;
  OneWay::listener.accept = [](lwmq_tli_listener* listener, lwmq_tli_transport** out) {
    const lwmq_status status = OneWay::below().listener->accept(listener, out);
    const std::lock_guard lock(mutex);
    if (status == LWMQ_OK) accepted.insert(*out);
    return status;
  };
  OneWay::transport.acquire = [](lwmq_tli_transport* transport, lwmq_tli_buffer* out_buffer) -> lwmq_status {
    return was_accepted(transport) ? below().acquire(transport, out_buffer) : LWMQ_E_FULL;
  };
  OneWay::transport.land = [](lwmq_tli_transport* transport, lwmq_tli_extent* out_extent) -> lwmq_status {
    return was_accepted(transport) ? LWMQ_E_EMPTY : below().land(transport, out_extent);
  };
  OneWay::transport.state = [](lwmq_tli_transport* transport, lwmq_tli_figures* out_figures) {
    const std::int32_t state = below().state(transport, out_figures);
    if (out_figures != nullptr) out_figures->unread_extents = 0;
    return state;
  };
  OneWay::transport.close = [](lwmq_tli_transport* transport, std::uint32_t lent, std::uint64_t unsent) {
    {
      const std::lock_guard lock(mutex);
      accepted.erase(transport);
    }
    below().close(transport, lent, unsent);
  };
  return true;
}();

LWMQ_TLI_REGISTER(one_way);

std::string fresh_address() { return kScheme + fresh_name(); }

void expect_refused(lwmq_status status, const char* text) {
  EXPECT_EQ(status, LWMQ_E_UNSUPPORTED);
  EXPECT_NE(std::string(lwmq_last_error()).find(text), std::string::npos) << lwmq_last_error();
}

// A client without send queues.
struct Listening {
  lwmq_channel* channel = nullptr;

  explicit Listening(const std::string& address, std::uint32_t raw = 0) {
    auto options = channel_options(1024, 4);
    options.raw = raw;
    EXPECT_EQ(lwmq_channel_create(address.c_str(), &options, &channel), LWMQ_OK) << lwmq_last_error();
    EXPECT_EQ(lwmq_channel_open(channel, LWMQ_ROLE_CLIENT), LWMQ_OK) << lwmq_last_error();
  }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;
  ~Listening() { lwmq_channel_destroy(channel); }
};

// rows: K12
TEST(OneWay, IsAcceptedWhereNothingComesBack) {
  const std::string address = fresh_address();
  const End server(address, LWMQ_ROLE_SERVER);
  Listening client(address);
  ASSERT_EQ(server.wait_connected(), LWMQ_OK);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(server.post(std::to_string(i)), LWMQ_OK);
  for (int i = 0; i < 1000; ++i) {
    lwmq_message* message = nullptr;
    ASSERT_EQ(lwmq_channel_receive(client.channel, kLimitMs, &message), LWMQ_OK) << lwmq_last_error();
    EXPECT_EQ(frames_of(message), Frames{std::to_string(i)});
    lwmq_message_destroy(message);
  }
  EXPECT_EQ(lwmq_channel_flush(server.channel, kLimitMs), LWMQ_OK);
  EXPECT_EQ(server.close(0), LWMQ_OK) << "what was read is not known, so that nothing is missed";
  lwmq_message* none = nullptr;
  EXPECT_EQ(lwmq_channel_receive(client.channel, kLimitMs, &none), LWMQ_E_CLOSED);
}

// rows: K12
TEST(OneWay, IsRefusedWhereBothWaysAreNeeded) {
  const std::string address = fresh_address();
  const End server(address, LWMQ_ROLE_SERVER);
  Listening client(address);
  ASSERT_EQ(server.wait_connected(), LWMQ_OK);
  lwmq_message* message = nullptr;
  expect_refused(lwmq_channel_receive(server.channel, kLimitMs, &message),
                 "who serves sends and cannot receive");
  expect_refused(lwmq_channel_receive(server.channel, 0, &message), "cannot receive");
  std::uint32_t count = 0;
  expect_refused(lwmq_channel_receive_many(server.channel, 1, 0, &message, &count), "cannot receive");
  std::int32_t fd = -1;
  expect_refused(lwmq_channel_descriptor(server.channel, &fd), address.c_str());
  const auto ignore = [](void*, lwmq_status, lwmq_message* received) { lwmq_message_destroy(received); };
  expect_refused(lwmq_channel_on_message(server.channel, ignore, nullptr), "cannot receive");
  lwmq_send_queue* queue = nullptr;
  expect_refused(lwmq_channel_add_send_queue(client.channel, nullptr, &queue),
                 "who connects receives and cannot send");
}

// rows: K12
TEST(OneWay, IsRefusedBeforeItIsOpenedWhereItsRoleSaysSo) {
  const std::string address = fresh_address();
  End client;
  client.create(address, channel_options(1024, 4));
  expect_refused(lwmq_channel_open(client.channel, LWMQ_ROLE_CLIENT), "cannot send");
  expect_refused(lwmq_channel_open(client.channel, LWMQ_ROLE_AUTO), "open it in one of these roles");
  lwmq_transport_options further{};
  further.size = sizeof further;
  expect_refused(lwmq_channel_add_transport(client.channel, kLoop.fresh_address().c_str(), &further),
                 "one of them carries one way alone");
  EXPECT_EQ(lwmq_channel_open(client.channel, LWMQ_ROLE_SERVER), LWMQ_OK) << lwmq_last_error();
  End both;
  both.create(kLoop.fresh_address(), channel_options(1024, 4));
  expect_refused(lwmq_channel_add_transport(both.channel, address.c_str(), &further),
                 "one of them carries one way alone");
}

// rows: K12
TEST(OneWay, HasRawBuffersInOneDirection) {
  const std::string address = fresh_address();
  const End server(address, LWMQ_ROLE_SERVER, channel_options(1024, 4, true));
  Listening client(address, 1);
  ASSERT_EQ(server.wait_connected(), LWMQ_OK);
  lwmq_buffer buffer{};
  ASSERT_EQ(lwmq_raw_get_buffer(server.channel, kLimitMs, &buffer), LWMQ_OK) << lwmq_last_error();
  std::memcpy(buffer.data, "one way", 7);
  buffer.bytes = 7;
  ASSERT_EQ(lwmq_raw_send_buffer(server.channel, &buffer), LWMQ_OK);
  lwmq_buffer received{};
  ASSERT_EQ(lwmq_raw_receive_buffer(client.channel, kLimitMs, &received), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(std::string(static_cast<const char*>(received.data), received.bytes), "one way");
  ASSERT_EQ(lwmq_raw_dispose_buffer(client.channel, &received), LWMQ_OK);
  expect_refused(lwmq_raw_receive_buffer(server.channel, 0, &received), "cannot receive");
  expect_refused(lwmq_raw_get_buffer(client.channel, 0, &buffer), "cannot send");
}

// rows: K12
TEST(OneWay, CarriesNoStream) {
  lwmq_endpoint* endpoint = nullptr;
  expect_refused(lwmq_endpoint_open(fresh_address().c_str(), &endpoint), "streams need a transport");
}

}  // namespace
}  // namespace lwmq::conformance
