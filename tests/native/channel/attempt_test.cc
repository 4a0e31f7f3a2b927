// How channels connect: in steps, of which none holds up another channel.
//
// `mute://name` is loop:// whose listeners answer an attempt when the test says so. `beside://name` is
// loop://, too, and notes at each attempt whether one at a mute listener was under way.
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>

#include "conformance/channel_fixture.h"
#include "conformance/providers.h"
#include "conformance/renamed.h"
#include "skewed_clock.h"

namespace lwmq::conformance {
namespace {

constexpr char kMuteScheme[] = "mute://";
constexpr char kBesideScheme[] = "beside://";
constexpr char kBelow[] = "loop://";

using Mute = Renamed<kMuteScheme, kBelow>;
using Beside = Renamed<kBesideScheme, kBelow>;
constexpr lwmq_tli_provider& mute = Mute::provider;
constexpr lwmq_tli_provider& beside = Beside::provider;

std::atomic<int> begun{0};
std::atomic<int> ended{0};
std::atomic<int> looks{0};
std::atomic<bool> was_beside{false};
std::atomic<lwmq_status> answer{LWMQ_E_TIMED_OUT};
std::atomic<int> answer_event{-1};  // readable when there is one

lwmq_tli_attempt* const kAttempt = reinterpret_cast<lwmq_tli_attempt*>(&begun);  // there is one at a time

const bool filled = [] {
  Mute::fill("mute");
  Beside::fill("beside");
  Mute::attempt = {
      .begin = [](const char*, const lwmq_tli_options*, lwmq_tli_attempt** out_attempt) -> lwmq_status {
        ++begun;
        *out_attempt = kAttempt;
        return LWMQ_OK;
      },
      .advance = [](lwmq_tli_attempt*, lwmq_tli_transport**) -> lwmq_status {
        ++looks;
        if (answer != LWMQ_E_TIMED_OUT) ++ended;
        return answer;
      },
      .descriptor = [](lwmq_tli_attempt*) -> std::int32_t { return answer_event; },
      .cancel = [](lwmq_tli_attempt*) { ++ended; },
  };
  Beside::attempt.begin = [](const char* address, const lwmq_tli_options* options, lwmq_tli_attempt** out) {
    was_beside = begun > ended;
    return Beside::below().attempt->begin(Beside::address_below(address).c_str(), options, out);
  };
  return true;
}();

LWMQ_TLI_REGISTER(mute);
LWMQ_TLI_REGISTER(beside);

class Attempts : public testing::Test {
 protected:
  Attempts() {
    begun = ended = looks = 0;
    answer = LWMQ_E_TIMED_OUT;
    answer_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  }
  ~Attempts() override { ::close(answer_event); }

  static void call() {
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(answer_event, &one, sizeof one), static_cast<ssize_t>(sizeof one));
  }
  static bool is_under_way() { return begun > ended; }

  const std::string name_ = fresh_name();
};

TEST_F(Attempts, ThatNobodyAnswersHoldUpNoOtherChannel) {
  const End stuck(kMuteScheme + name_, LWMQ_ROLE_CLIENT);
  ASSERT_TRUE(eventually([] { return looks > 0; }));
  const End client(kBesideScheme + name_, LWMQ_ROLE_CLIENT);
  const End server(kBesideScheme + name_, LWMQ_ROLE_SERVER);
  ASSERT_EQ(client.wait_connected(), LWMQ_OK) << lwmq_last_error();
  EXPECT_TRUE(was_beside);
  ASSERT_EQ(client.post("heard"), LWMQ_OK);
  EXPECT_EQ(server.receive_text(), "heard");
}

TEST_F(Attempts, EndWithTheirChannel) {
  {
    const End stuck(kMuteScheme + name_, LWMQ_ROLE_CLIENT);
    ASSERT_TRUE(eventually([] { return looks > 0; }));
    EXPECT_TRUE(is_under_way());
  }
  EXPECT_FALSE(is_under_way());
  EXPECT_EQ(begun, 1);
  call();  // nobody watches it any more
  const int before = looks;
  const End server(kBesideScheme + name_, LWMQ_ROLE_SERVER);
  const End client(kBesideScheme + name_, LWMQ_ROLE_CLIENT);
  ASSERT_EQ(client.wait_connected(), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(looks, before);
}

TEST_F(Attempts, GoOnWhenTheirDescriptorCalls) {
  const End stuck(kMuteScheme + name_, LWMQ_ROLE_CLIENT);
  ASSERT_TRUE(eventually([] { return looks > 0; }));
  for (int i = 1; i < 4; ++i) {
    const int before = looks;
    call();
    ASSERT_TRUE(eventually([before] { return looks > before; }));
    ASSERT_EQ(begun, 1);
    std::uint64_t calls = 0;
    [[maybe_unused]] const auto read = ::read(answer_event, &calls, sizeof calls);
  }
}

TEST_F(Attempts, AreGivenUpAfterSomeSecondsAndMadeAgain) {
  const End stuck(kMuteScheme + name_, LWMQ_ROLE_CLIENT);
  ASSERT_TRUE(eventually([] { return looks > 0; }));
  clock_is_ahead_s += 60;
  call();
  EXPECT_TRUE(eventually([] { return begun > 1; }));
  EXPECT_EQ(ended, begun - 1);
}

// Of an automatic role: open has not waited for it.
TEST_F(Attempts, ThatFindNobodyLaterMakeAServer) {
  const End late(kMuteScheme + name_, LWMQ_ROLE_AUTO);
  EXPECT_TRUE(is_under_way());
  EXPECT_EQ(late.statistics().is_server, 0U);
  answer = LWMQ_E_EMPTY;
  call();
  ASSERT_TRUE(eventually([&] { return late.statistics().is_server == 1; }));
  EXPECT_FALSE(is_under_way());
  const End client(kBelow + name_, LWMQ_ROLE_CLIENT);
  ASSERT_EQ(client.wait_connected(), LWMQ_OK) << lwmq_last_error();
  ASSERT_EQ(client.post("heard"), LWMQ_OK);
  EXPECT_EQ(late.receive_text(), "heard");
}

}  // namespace
}  // namespace lwmq::conformance
