// What may stand behind the question mark of an address, and what is said about an address that is none.
#include "address/options.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "filters/filtered.h"
#include "modules/find.h"

namespace lwmq::address {
namespace {

constexpr std::uint32_t kChannel = LWMQ_TAKEN_BY_CHANNEL;
constexpr std::uint32_t kStream = LWMQ_TAKEN_BY_STREAM;

std::string refusal_of(const char* address, std::uint32_t taken_by = kStream) {
  AddressOption option;
  for (std::uint32_t i = 0;; ++i) {
    const Status status = read_option(address, taken_by, i, &option);
    if (status == LWMQ_E_EMPTY) return "";
    if (status != LWMQ_OK) return status == LWMQ_E_ADDRESS ? last_error() : status_name(status);
  }
}

TEST(AddressOptions, AreReadOneByOne) {
  const char* address = "x://y?buffer_bytes=4MiB&role=Client&name=a=b";
  AddressOption option;
  ASSERT_EQ(read_option(address, kStream, 0, &option), LWMQ_OK) << last_error();
  EXPECT_STREQ(option.setting.key, "buffer_bytes");
  EXPECT_EQ(option.value, 4u << 20);
  ASSERT_EQ(read_option(address, kStream, 1, &option), LWMQ_OK);
  EXPECT_EQ(option.value, static_cast<std::uint64_t>(LWMQ_ROLE_CLIENT));
  ASSERT_EQ(read_option(address, kStream, 2, &option), LWMQ_OK);
  EXPECT_EQ(option.text, "a=b");
  EXPECT_EQ(read_option(address, kStream, 3, &option), LWMQ_E_EMPTY);
  EXPECT_EQ(read_option("x://y", kStream, 0, &option), LWMQ_E_EMPTY);
}

TEST(AddressOptions, ThatAreRefusedAreNamedWithWhatThereIs) {
  EXPECT_EQ(refusal_of("x://y?bufers=3"),
            "option 'bufers' of 'x://y?bufers=3' is unknown: did you mean 'buffers'?");
  EXPECT_NE(refusal_of("x://y?colour=red").find("is unknown; allowed are buffer_bytes, buffers, "),
            std::string::npos);
  EXPECT_NE(refusal_of("x://y?retain=all", kChannel).find("is none of a channel's; allowed are "),
            std::string::npos);
  EXPECT_NE(refusal_of("x://y?raw=true").find("is none of a stream's; allowed are "), std::string::npos);
  EXPECT_EQ(refusal_of("x://y?buffers"),
            "option 'buffers' of 'x://y?buffers' has no value: write buffers=...");
  EXPECT_NE(refusal_of("x://y?buffers=3&buffers=4").find("is given twice"), std::string::npos);
  EXPECT_NE(refusal_of("x://y?").find("ends in '?' and names no option"), std::string::npos);
  EXPECT_NE(refusal_of("x://y?=3").find("option '' of"), std::string::npos);
  EXPECT_NE(refusal_of("x://y?timeout=soon").find("'soon' is not a duration"), std::string::npos);
}

// The keys of a provider are known at its addresses alone.
TEST(AddressOptions, OfAProviderAreTextsThatItTakesItself) {
  const lwmq_tli_provider* provider = nullptr;
  for (std::uint32_t i = 0; (provider = modules::provider_at(i)) != nullptr; ++i) {
    if (provider->settings != nullptr) break;
  }
  ASSERT_NE(provider, nullptr);
  const std::string key = provider->settings[0];
  const std::string address = std::string(provider->name) + "://y?buffers=3&" + key + "=a=b";
  for (const std::string& whole : {address, "trace+" + address}) {
    AddressOption option;
    ASSERT_EQ(read_option(whole.c_str(), kChannel, 1, &option), LWMQ_OK) << last_error();
    EXPECT_EQ(option.setting.key, key);
    EXPECT_EQ(option.text, "a=b");
    EXPECT_TRUE(is_own(option.setting));
  }
  EXPECT_EQ(refusal_of(("x://y?" + key + "=1").c_str()).find("option '" + key), 0u);
  const std::string slip = std::string(provider->name) + "://y?" + key + "x=1";
  EXPECT_NE(refusal_of(slip.c_str()).find("did you mean '" + key + "'?"), std::string::npos);
  const std::string twice = address + "&" + key + "=c";
  EXPECT_NE(refusal_of(twice.c_str()).find("is given twice"), std::string::npos);
  StreamAddress stream;
  ASSERT_EQ(split_stream((address.substr(0, address.find('?')) + "?stream=s&" + key + "=v").c_str(), &stream),
            LWMQ_OK)
      << last_error();
  ASSERT_NE(stream.own, nullptr);
  lwmq_tli_options options{};
  stream.own->lend_to(&options);
  ASSERT_EQ(options.settings_count, 1u);
  EXPECT_EQ(options.settings[0].name, key);
  EXPECT_STREQ(options.settings[0].value, "v");
  EXPECT_EQ(stream.text(), std::string(provider->name) + "://y?stream=s") << "no settings of a provider";
}

TEST(AddressOptions, OutOfBoundsAreRefusedWithTheBounds) {
  EXPECT_EQ(refusal_of("x://y?partitions=0"),
            "option 'partitions' of 'x://y?partitions=0': '0' is out of bounds: 1 to 16384 are possible");
  for (const char* pair : {"partitions=16385", "buffers=0", "buffers=4001", "readers=0", "writers=0",
                           "credit=0", "credit=4097", "buffer_bytes=0", "window_bytes=0"}) {
    const std::string address = std::string("x://y?") + pair;
    EXPECT_NE(refusal_of(address.c_str()).find("is out of bounds: 1 to "), std::string::npos)
        << refusal_of(address.c_str());
  }
  EXPECT_NE(refusal_of("x://y?window_bytes=100TiB").find("for the machine has no more bytes of memory"),
            std::string::npos);
}

TEST(AddressOptions, OfSeveralAddressesInOneTextAreRefused) {
  EXPECT_NE(refusal_of("x://a,x://b").find("a stream has one, a channel takes several as a list"),
            std::string::npos);
  EXPECT_EQ(refusal_of("loss=0.1,seed=7+x://a,b"), "")
      << "a name with a comma, behind a filter with settings";
}

TEST(Settings, HaveEachAKeyOfItsOwnAndSomethingThatTakesIt) {
  std::set<std::string> keys;
  for (std::uint32_t i = 0; const lwmq_setting* setting = setting_at(i); ++i) {
    EXPECT_TRUE(keys.insert(setting->key).second) << setting->key;
    EXPECT_NE(setting->taken_by, 0u) << setting->key;
    EXPECT_EQ(setting->words != nullptr, setting->kind == LWMQ_VALUE_WORD) << setting->key;
    EXPECT_EQ(find_setting(setting->key), setting);
  }
}

// An address without a scheme may mean the one provider between processes whose addresses are mere names.
TEST(Addresses, WithASlipAreRefusedWithTheOneThatIsMeant) {
  std::string between;  // the scheme that an address without one may mean
  for (std::uint32_t i = 0; const auto* provider = modules::provider_at(i); ++i) {
    lwmq_limits limits{};
    limits.size = sizeof limits;
    if (provider->limits((std::string(provider->name) + "://x").c_str(), &limits) != LWMQ_OK) continue;
    if ((limits.capabilities & LWMQ_IS_IN_PROCESS) == 0) between = provider->name;
  }
  std::string loud = between;
  for (char& letter : loud) letter = static_cast<char>(letter - 'a' + 'A');
  const std::string slip = between.substr(0, between.size() - 1) + "x";
  const std::string name = "did you mean '" + between + "://flights'?";
  const std::string file = "did you mean '" + between + ":///tmp/x'?";
  for (const auto& [address, meant] : {std::pair{slip + "://flights", name},
                                       {loud + "://flights", name},
                                       {between + ":/flights", name},
                                       {"./flights", name},
                                       {"flights", name},
                                       {"/tmp/x", file},
                                       {between + ":/tmp/x", file},
                                       {"carrier-pigeon://coop", std::string("there are: ")},
                                       {"", std::string("there are: ")}}) {
    const lwmq_tli_provider* provider = nullptr;
    EXPECT_EQ(filters::find(address.c_str(), &provider), LWMQ_E_ADDRESS);
    EXPECT_NE(std::string(last_error()).find(meant), std::string::npos) << last_error();
    EXPECT_NE(std::string(last_error()).find(between), std::string::npos) << last_error();
  }
}

}  // namespace
}  // namespace lwmq::address
