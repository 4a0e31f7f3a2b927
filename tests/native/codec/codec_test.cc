// links: base os message codec
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "codec/decoder.h"
#include "codec/encoder.h"
#include "golden.h"
#include "message/message.h"

namespace lwmq::codec {
namespace {

using Frames = std::vector<std::string>;
using Ticks = std::vector<std::uint64_t>;  // of the frames; shorter where the last ones have none

Message* make(const Frames& frames, const Ticks& ticks = {}) {
  Message* message = Message::create();
  for (const auto& frame : frames) EXPECT_EQ(message->append(frame.data(), frame.size()), LWMQ_OK);
  for (std::uint32_t i = 0; i < ticks.size(); ++i) EXPECT_EQ(message->set_timestamp(i, ticks[i]), LWMQ_OK);
  return message;
}

Ticks ticks_of(const Message& message) {
  Ticks ticks;
  for (std::uint32_t i = 0; i < message.frame_count(); ++i) ticks.push_back(message.timestamp(i));
  return ticks;
}

Frames frames_of(const Message& message) {
  Frames frames;
  for (std::uint32_t i = 0; i < message.frame_count(); ++i) {
    frames.emplace_back(reinterpret_cast<const char*>(message.frames()[i].data), message.frames()[i].bytes);
  }
  return frames;
}

struct Extent {
  std::string bytes;
  std::uint32_t kind;
};

Extent encoded(const Frames& frames, const Ticks& ticks = {}) {
  Message* message = make(frames, ticks);
  const Encoding encoding = measure(*message);
  // One byte more on each side than may be written.
  std::string bytes(encoding.bytes + 2, '\x5a');
  encode(*message, reinterpret_cast<std::uint8_t*>(bytes.data()) + 1);
  Message::destroy(message);
  EXPECT_EQ(bytes.front(), '\x5a');
  EXPECT_EQ(bytes.back(), '\x5a');
  return {bytes.substr(1, encoding.bytes), static_cast<std::uint32_t>(encoding.kind)};
}

const std::uint8_t* data_of(const Extent& extent) {
  return reinterpret_cast<const std::uint8_t*>(extent.bytes.data());
}

Status decode(const Extent& extent, Frames* out_frames, Ticks* out_ticks = nullptr) {
  Message* message = nullptr;
  const Status status = decode_copy(data_of(extent), extent.bytes.size(), extent.kind, &message);
  if (status != LWMQ_OK) return status;
  *out_frames = frames_of(*message);
  if (out_ticks != nullptr) *out_ticks = ticks_of(*message);
  Message::destroy(message);
  return LWMQ_OK;
}

constexpr std::uint64_t kNoon = 133'853'040'000'000'000;  // 2025-03-01 12:00 UTC

// rows: L48 S07
TEST(Codec, WritesAndReadsTheGoldenBytes) {
  struct Meaning {
    std::string name;
    Frames frames;
    Ticks ticks;
  };
  const std::vector<Meaning> meaning = {
      {"one_frame", {"buy 100"}, {0}},
      {"one_empty_frame", {""}, {0}},
      {"no_frame", {}, {}},
      {"two_frames", {"head", "the body"}, {0, 0}},
      {"three_frames_one_empty", {"\xff", "", "\x01\x02"}, {0, 0, 0}},
      {"one_frame_with_a_timestamp", {"tick"}, {kNoon}},
      {"two_frames_one_timestamp", {"head", "the body"}, {0, kNoon + 1}},
  };
  auto golden = testing_support::read_golden(LWMQ_SOURCE_ROOT "/tests/wire/message.hex");
  ASSERT_EQ(golden.size(), meaning.size() + 2);
  const wire::Goodbye goodbye{1000};
  EXPECT_EQ(golden["goodbye"].kind, static_cast<std::uint32_t>(wire::ExtentKind::kGoodbye));
  EXPECT_EQ(golden["goodbye"].bytes, std::string(reinterpret_cast<const char*>(&goodbye), sizeof goodbye));
  for (const auto& [name, meant, stamped] : meaning) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(golden.contains(name));
    const Extent extent = encoded(meant, stamped);
    EXPECT_EQ(extent.bytes, golden[name].bytes);
    EXPECT_EQ(extent.kind, golden[name].kind);
    Frames frames;
    Ticks ticks;
    ASSERT_EQ(decode({golden[name].bytes, golden[name].kind}, &frames, &ticks), LWMQ_OK) << last_error();
    EXPECT_EQ(frames, meant);
    EXPECT_EQ(ticks, stamped);
  }
}

// The frames of an application, and behind them what is not theirs.
// rows: L48
TEST(Codec, CarriesANumberBehindTheFrames) {
  const auto golden =
      testing_support::read_golden(LWMQ_SOURCE_ROOT "/tests/wire/message.hex").at("numbered_frame");
  const wire::Number number{0x0102030405060708, 42};
  for (const bool viewed : {false, true}) {
    Message* made = make({"buy 100"});
    ASSERT_EQ(made->put_number(number), LWMQ_OK);
    std::string bytes(measure(*made).bytes, '\0');
    encode(*made, reinterpret_cast<std::uint8_t*>(bytes.data()));
    EXPECT_EQ(bytes, golden.bytes);
    EXPECT_EQ(static_cast<std::uint32_t>(measure(*made).kind), golden.kind);
    made->take_number();
    EXPECT_EQ(measure(*made).bytes, 7u);  // as before
    Message::destroy(made);

    const Extent extent{golden.bytes, golden.kind};
    static bool released;
    released = false;
    message::Owner owner([](message::Owner*) noexcept { released = true; });
    Message* got = nullptr;
    ASSERT_EQ(viewed ? decode_view(data_of(extent), extent.bytes.size(), extent.kind, &owner, &got)
                     : decode_copy(data_of(extent), extent.bytes.size(), extent.kind, &got),
              LWMQ_OK)
        << last_error();
    ASSERT_TRUE(got->is_numbered());
    const wire::Number read = got->take_number();
    EXPECT_EQ(read.queue, number.queue);
    EXPECT_EQ(read.place, number.place);
    EXPECT_FALSE(got->is_numbered());
    EXPECT_EQ(frames_of(*got), Frames{"buy 100"});
    Message::destroy(got);
    EXPECT_FALSE(released);  // ours is left
    message::drop(&owner);
    EXPECT_TRUE(released);
  }
}

// ---- Both ways

// rows: L40 S07
TEST(Codec, DecodesWhatItEncodedForEveryShape) {
  constexpr unsigned kSeed = 40;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  for (int round = 0; round < 3000; ++round) {
    Frames frames(random() % (round % 50 == 0 ? 2000 : 9));
    for (auto& frame : frames) {
      frame.resize(random() % 4 == 0 ? random() % 5000 : random() % 20);
      for (char& byte : frame) byte = static_cast<char>(random());
    }
    Ticks ticks(frames.size());
    if (round % 3 == 0) {
      for (auto& each : ticks) each = random() % 2 * random();
    }
    const Extent extent = encoded(frames, ticks);
    Frames copied;
    Ticks stamped;
    ASSERT_EQ(decode(extent, &copied, &stamped), LWMQ_OK) << last_error();
    ASSERT_EQ(copied, frames);
    ASSERT_EQ(stamped, ticks);
  }
}

// A frame costs nothing on the wire where the extent's length says it all.
TEST(Codec, AddsNothingToASingleFrame) { EXPECT_EQ(encoded({std::string(777, 'x')}).bytes.size(), 777u); }

struct CountedOwner : message::Owner {
  CountedOwner() : Owner([](Owner* owner) noexcept { static_cast<CountedOwner*>(owner)->finished = true; }) {}
  bool finished = false;
};

// rows: L40
TEST(Codec, ShowsFramesWhereTheyArrivedAndHoldsTheExtentUntilTheLastIsGone) {
  const Frames frames = {std::string(3000, 'a'), "b", std::string(2000, 'c')};
  const Extent extent = encoded(frames);
  CountedOwner owner;
  Message* message = nullptr;
  ASSERT_EQ(decode_view(data_of(extent), extent.bytes.size(), extent.kind, &owner, &message), LWMQ_OK);
  EXPECT_EQ(frames_of(*message), frames);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_GE(message->frames()[i].data, data_of(extent));
    EXPECT_LT(message->frames()[i].data, data_of(extent) + extent.bytes.size());
  }
  message::drop(&owner);
  Message* second = message->reference();
  Message::destroy(message);
  EXPECT_FALSE(owner.finished);
  Message::destroy(second);
  EXPECT_TRUE(owner.finished);
}

// ---- Hostile bytes

// rows: L40
TEST(Codec, RefusesWhatCannotBeRightAndSaysWhy) {
  const Extent good = encoded({"head", "the body"});
  Extent stamped = encoded({"head", "the body"}, {1, 2});
  stamped.bytes[0] = 32;
  const auto with = [&](std::size_t at, char byte) {
    Extent bad = good;
    bad.bytes[at] = byte;
    return bad;
  };
  const std::vector<std::pair<const char*, Extent>> bad = {
      {"kind 7 is none", {good.bytes, 7}},
      {"kind 0 is none", {good.bytes, 0}},
      {"an extent of 0 bytes", {"", 2}},
      {"its message: 49 bytes", with(0, 49)},
      {"its message: 47 bytes", with(0, 47)},
      {"flags 0x4", with(12, 4)},
      {"flags 0x7", with(12, 7)},
      {"the last of 2 frames is to be a number of 16 bytes", with(12, 2)},
      {"frame 0 of 2 says 4 bytes where 0 are left", {stamped.bytes.substr(0, 32), stamped.kind}},
      {"70000 frames",
       [&] {
         Extent extent = good;
         const std::uint32_t frames = 70000;
         std::memcpy(extent.bytes.data() + 8, &frames, sizeof frames);
         return extent;
       }()},
      {"frame 2 of 3", with(8, 3)},
      {"are left behind the last of 1 frames", with(8, 1)},
      {"frame 0 of 2 says 255 bytes where 24 are left", with(16, '\xff')},
      {"frame 1 of 2 says 9 bytes where 8 are left", with(32, 9)},
  };
  for (const auto& [text, extent] : bad) {
    Frames frames;
    EXPECT_EQ(decode(extent, &frames), LWMQ_E_CORRUPT) << text;
    EXPECT_NE(std::string(last_error()).find(text), std::string::npos) << last_error();
  }
}

// rows: L40
TEST(Codec, SurvivesEveryDamageAndNeverReadsBeyondTheExtent) {
  constexpr unsigned kSeed = 4711;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  const Frames frames = {"one", std::string(100, 'x'), "", "four"};
  const Extent good[] = {encoded(frames), encoded(frames, {1, 0, 3, 4})};
  for (int round = 0; round < 20000; ++round) {
    Extent bad = good[round % 2];
    for (unsigned i = 1 + random() % 4; i > 0; --i) {
      bad.bytes[random() % bad.bytes.size()] = static_cast<char>(random());
    }
    bad.bytes.resize(random() % (bad.bytes.size() + 1));
    if (bad.bytes.size() >= 8 && random() % 2 == 0) {  // let the length be right, so that more is looked at
      const std::uint64_t bytes = bad.bytes.size();
      std::memcpy(bad.bytes.data(), &bytes, sizeof bytes);
    }
    // A block of exactly that size on the heap: a sanitizer sees the first byte beyond it.
    const std::vector<std::uint8_t> exact(bad.bytes.begin(), bad.bytes.end());
    Message* message = nullptr;
    const Status status = decode_copy(exact.data(), exact.size(), bad.kind, &message);
    ASSERT_TRUE(status == LWMQ_OK || status == LWMQ_E_CORRUPT);
    if (status == LWMQ_OK) Message::destroy(message);
    CountedOwner owner;
    const Status viewed = decode_view(exact.data(), exact.size(), bad.kind, &owner, &message);
    ASSERT_EQ(viewed, status);
    if (viewed == LWMQ_OK) Message::destroy(message);
    ASSERT_EQ(owner.references, 1u) << "a refused message keeps nothing";
  }
}

TEST(Codec, MeasuresFramesThatNoBufferHolds) {
  Message* message = Message::create();
  for (int i = 0; i < 2; ++i) ASSERT_EQ(message->append_static("", UINT64_MAX / 2), LWMQ_OK);
  EXPECT_EQ(measure(*message).bytes, UINT64_MAX);
  Message::destroy(message);
}

}  // namespace
}  // namespace lwmq::codec
