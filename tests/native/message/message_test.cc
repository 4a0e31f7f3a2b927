// links: base os message
#include "message/message.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

namespace lwmq {
namespace {

std::string text_of(const Message& message, std::uint32_t frame) {
  return {reinterpret_cast<const char*>(message.frames()[frame].data), message.frames()[frame].bytes};
}

// Counts the call-backs of an external frame.
struct Watched {
  std::string bytes;
  int acquired = 0;
  int released = 0;

  static void callback(void* context, std::int32_t event) {
    auto* watched = static_cast<Watched*>(context);
    ++(event == LWMQ_FRAME_ACQUIRE ? watched->acquired : watched->released);
  }
  Status append_to(Message* message) {
    return message->append_external(bytes.data(), bytes.size(), callback, this);
  }
};

bool lies_in(const Message* message, const void* data) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(message);
  return data >= begin && data < begin + sizeof(Message);
}

// rows: Z01
TEST(MessageHandle, HoldsSmallContentInItself) {
  Message* message = Message::create();
  ASSERT_EQ(message->append("small", 5), LWMQ_OK);
  EXPECT_TRUE(lies_in(message, message->frames()[0].data));
  EXPECT_FALSE(message->has_owners());
  EXPECT_EQ(text_of(*message, 0), "small");
  Message::destroy(message);
}

// rows: Z03
TEST(MessageHandle, LooksTheSameBelowAtAndAboveItsInlineRoom) {
  for (const std::uint64_t bytes :
       {Message::kInlineBytes - 1, Message::kInlineBytes, Message::kInlineBytes + 1, 100000u}) {
    const std::string content(bytes, 'c');
    Message* message = Message::create();
    ASSERT_EQ(message->append(content.data(), content.size()), LWMQ_OK);
    EXPECT_EQ(lies_in(message, message->frames()[0].data), bytes <= Message::kInlineBytes);
    Message* second = message->reference();
    Message::destroy(message);
    EXPECT_EQ(text_of(*second, 0), content);
    Message::destroy(second);
  }
}

// rows: Z02
TEST(MessageHandle, SharesLargeContentWithItsReferences) {
  const std::string content(5000, 'x');
  Message* message = Message::create();
  ASSERT_EQ(message->append(content.data(), content.size()), LWMQ_OK);
  Message* second = message->reference();
  EXPECT_EQ(second->frames()[0].data, message->frames()[0].data) << "no copy";
  EXPECT_EQ(message->frames()[0].owner->references, 2u);
  Message::destroy(message);
  EXPECT_EQ(second->frames()[0].owner->references, 1u);
  EXPECT_EQ(text_of(*second, 0), content);
  Message::destroy(second);
}

// rows: S06
TEST(MessageHandle, GivesAReferenceALifetimeAndFramesOfItsOwn) {
  Message* message = Message::create();
  ASSERT_EQ(message->append("one", 3), LWMQ_OK);
  Message* second = message->reference();
  ASSERT_EQ(second->append("two", 3), LWMQ_OK);
  EXPECT_EQ(message->frame_count(), 1u) << "what is appended to a reference shows there alone";
  Message::destroy(message);
  ASSERT_EQ(second->frame_count(), 2u);
  EXPECT_EQ(text_of(*second, 0), "one");
  EXPECT_EQ(text_of(*second, 1), "two");
  Message::destroy(second);
}

// rows: S05
TEST(MessageHandle, ShowsStaticFramesWhereTheyAre) {
  static const char kForever[] = "outlives everything";
  Message* message = Message::create();
  ASSERT_EQ(message->append_static(kForever, sizeof kForever), LWMQ_OK);
  EXPECT_EQ(static_cast<const void*>(message->frames()[0].data), kForever);
  Message::destroy(message);
}

// rows: S05
TEST(MessageHandle, AcquiresAndReleasesAnExternalFrameExactlyOnce) {
  Watched watched{"external", 0, 0};
  Message* message = Message::create();
  ASSERT_EQ(watched.append_to(message), LWMQ_OK);
  EXPECT_EQ(watched.acquired, 1);
  EXPECT_EQ(static_cast<const void*>(message->frames()[0].data), watched.bytes.data());
  Message* references[3];
  for (auto& reference : references) reference = message->reference();
  Message::destroy(message);
  Message::destroy(references[1]);
  EXPECT_EQ(watched.released, 0) << "two references are left";
  std::thread([&] { Message::destroy(references[0]); }).join();
  EXPECT_EQ(watched.released, 0);
  Message::destroy(references[2]);
  EXPECT_EQ(watched.acquired, 1);
  EXPECT_EQ(watched.released, 1);
}

// rows: S05
TEST(MessageHandle, MakesNeitherCallBackWhenAnAppendFails) {
  Message* message = Message::create();
  for (std::uint32_t i = 0; i < kFramesMax; ++i) ASSERT_EQ(message->append_static("", 0), LWMQ_OK);
  Watched watched{"too much", 0, 0};
  EXPECT_EQ(watched.append_to(message), LWMQ_E_TOO_BIG);
  EXPECT_EQ(message->append(std::string(1000, 'x').data(), 1000), LWMQ_E_TOO_BIG);
  EXPECT_EQ(watched.acquired + watched.released, 0);
  EXPECT_EQ(message->frame_count(), kFramesMax);
  Message::destroy(message);
}

// rows: S05
TEST(MessageHandle, KeepsItsPromisesForRandomShapes) {
  constexpr unsigned kSeed = 1709;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  std::vector<std::unique_ptr<Watched>> watched;
  for (int round = 0; round < 500; ++round) {
    Message* message = Message::create(random() % 20);
    std::vector<std::string> expected;
    const auto frames = random() % 40;
    for (unsigned i = 0; i < frames; ++i) {
      const std::string content(random() % 300, static_cast<char>('a' + random() % 26));
      if (random() % 3 == 0) {
        watched.push_back(std::make_unique<Watched>(Watched{content, 0, 0}));
        ASSERT_EQ(watched.back()->append_to(message), LWMQ_OK);
      } else {
        ASSERT_EQ(message->append(content.data(), content.size()), LWMQ_OK);
      }
      expected.push_back(content);
    }
    std::vector<Message*> handles{message};
    for (unsigned i = random() % 4; i > 0; --i)
      handles.push_back(handles[random() % handles.size()]->reference());
    std::shuffle(handles.begin(), handles.end(), random);
    for (Message* handle : handles) {
      ASSERT_EQ(handle->frame_count(), expected.size());
      for (std::uint32_t i = 0; i < expected.size(); ++i) ASSERT_EQ(text_of(*handle, i), expected[i]);
      Message::destroy(handle);
    }
  }
  for (const auto& each : watched) {
    EXPECT_EQ(each->acquired, 1);
    EXPECT_EQ(each->released, 1);
  }
}

// rows: Z04
TEST(BlockPool, GivesBlocksAgainToTheThreadThatTakesThem) {
  void* first = message::take_block();
  message::give_block(first);
  EXPECT_EQ(message::take_block(), first);
  message::give_block(first);
}

TEST(BlockPool, BringsBlocksFromAThreadThatGivesToOneThatTakes) {
  constexpr int kBlocks = 10000;
  std::vector<void*> blocks(kBlocks);
  for (int round = 0; round < 5; ++round) {
    for (auto& block : blocks) ASSERT_NE(block = message::take_block(), nullptr);
    std::thread([&] {
      for (void* block : blocks) message::give_block(block);
    }).join();
  }
}

}  // namespace
}  // namespace lwmq
