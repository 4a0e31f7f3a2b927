// links: base os message
// wraps: malloc aligned_alloc _ZN4lwmq7message5Slabs4takeEv
#include "message/message.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

// What the code under test asks the heap and its own slabs for: counted, and refused on demand, also under a
// sanitizer.
namespace {
thread_local std::uint64_t t_allocations = 0;
thread_local std::int64_t t_allocations_left = INT64_MAX;

bool allocation_is_refused() {
  ++t_allocations;
  return t_allocations_left-- <= 0;
}
}  // namespace

extern "C" {
void* __real_malloc(std::size_t bytes);
void* __real_aligned_alloc(std::size_t alignment, std::size_t bytes);
void* __wrap_malloc(std::size_t bytes) { return allocation_is_refused() ? nullptr : __real_malloc(bytes); }
void* __wrap_aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return allocation_is_refused() ? nullptr : __real_aligned_alloc(alignment, bytes);
}
// message::Slabs::take
void* __real__ZN4lwmq7message5Slabs4takeEv(void* slabs);
void* __wrap__ZN4lwmq7message5Slabs4takeEv(void* slabs) {
  return allocation_is_refused() ? nullptr : __real__ZN4lwmq7message5Slabs4takeEv(slabs);
}
}

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

// rows: Z01 Z04
TEST(MessageHandle, AsksTheHeapForNothingUpToItsInlineRoomAndEightFramesNorForAMegabyteOnceMore) {
  constexpr std::uint64_t kMegabyte = 1 << 20;
  const std::string content(kMegabyte + 1, 'i');
  const auto allocations_of = [&](std::uint64_t bytes, int frames, bool timestamps) {
    const std::uint64_t before = t_allocations;
    Message* message = Message::create();
    EXPECT_EQ(message->append(content.data(), bytes), LWMQ_OK);
    for (int i = 1; i < frames; ++i) EXPECT_EQ(message->append_static("s", 1), LWMQ_OK);
    EXPECT_EQ(message->set_timestamp(0, timestamps ? 1 : 0), LWMQ_OK);
    Message* second = message->reference();
    Message::destroy(message);
    Message::destroy(second);
    return t_allocations - before;
  };
  allocations_of(1, 6, true);  // the pool of this thread has blocks
  EXPECT_EQ(allocations_of(kInlineBytesMax, 1, false), 0u);
  EXPECT_EQ(allocations_of(1, 8, false), 0u);
  EXPECT_EQ(allocations_of(1, 6, true), 0u);
  for (const std::uint64_t bytes :
       {std::uint64_t{321}, std::uint64_t{1025}, std::uint64_t{4097}, kMegabyte}) {
    allocations_of(bytes, 1, false);
    EXPECT_EQ(allocations_of(bytes, 1, false), 0u) << bytes;
  }
  EXPECT_EQ(allocations_of(kMegabyte + 1, 1, false), 1u)
      << "too large for a block: of its own, once for both handles";
  allocations_of(1, 16, false);
  EXPECT_EQ(allocations_of(1, 16, false), 0u);
  allocations_of(1, 300, false);
  EXPECT_EQ(allocations_of(1, 300, false), 0u);
}

// rows: S05
TEST(MessageHandle, MakesNeitherCallBackWhenAnAppendFails) {
  Message* message = Message::create();
  for (std::uint32_t i = 0; i < kFramesMax; ++i) ASSERT_EQ(message->append_static("", 0), LWMQ_OK);
  Watched watched{"too much", 0, 0};
  EXPECT_EQ(watched.append_to(message), LWMQ_E_TOO_BIG);
  EXPECT_EQ(message->append(std::string(1000, 'x').data(), 1000), LWMQ_E_TOO_BIG);
  EXPECT_STREQ(last_error(), "frame 65536 of a message: it has at most 65535");
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

// What a message should hold, beside one that does.
struct Model {
  struct Expected {
    std::string bytes;
    std::uint64_t ticks;
  };
  Message* message;
  std::vector<Expected> frames;

  void check() const {
    ASSERT_EQ(message->frame_count(), frames.size());
    for (std::uint32_t i = 0; i < frames.size(); ++i) {
      ASSERT_EQ(text_of(*message, i), frames[i].bytes);
      ASSERT_EQ(message->timestamp(i), frames[i].ticks);
    }
  }
};

// Random calls on some messages, each with a heap that gives out at a random point: a call that fails has
// changed nothing, and every external frame was acquired once if its append said so and released once at the
// end.
// rows: S05 S06 M01
TEST(MessageHandle, ChangesNothingWhereMemoryIsShort) {
  constexpr unsigned kSeed = 77;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  std::vector<std::unique_ptr<Watched>> watched;
  std::vector<std::unique_ptr<Watched>> refused;
  int failures = 0;
  for (int round = 0; round < 300; ++round) {
    // On a thread of its own, whose pool is empty: blocks, too, come from the heap that gives out.
    std::thread([&] {
      std::vector<Model> models;
      for (int step = 0; step < 60; ++step) {
        const unsigned what = random() % 8;
        std::string content(random() % 3 == 0 ? random() % 2000 : random() % 60, 'a');
        for (char& byte : content) byte = static_cast<char>('a' + random() % 26);
        const std::uint64_t ticks = random() % 4 == 0 ? 0 : 1 + random();
        t_allocations_left = random() % 2 == 0 ? random() % 2 : INT64_MAX;
        Status status = LWMQ_OK;
        Message* made = nullptr;
        if (models.empty() || what == 0) {
          made = Message::create(random() % 20);
          t_allocations_left = INT64_MAX;
          if (made != nullptr) models.push_back({made, {}});
          failures += made == nullptr ? 1 : 0;
          continue;
        }
        Model& model = models[random() % models.size()];
        const std::uint32_t frame = model.frames.empty() ? 0 : random() % model.frames.size();
        if (what == 1) {
          made = model.message->reference();
          t_allocations_left = INT64_MAX;
          const auto frames = model.frames;
          if (made != nullptr) models.push_back({made, frames});
          failures += made == nullptr ? 1 : 0;
        } else if (what == 2 && !model.frames.empty()) {
          status = model.message->set_timestamp(frame, ticks);
          if (status == LWMQ_OK) model.frames[frame].ticks = ticks;
        } else if (what <= 4) {
          auto external = std::make_unique<Watched>(Watched{content, 0, 0});
          status = external->append_to(model.message);
          if (status == LWMQ_OK) model.frames.push_back({content, 0});
          (status == LWMQ_OK ? watched : refused).push_back(std::move(external));
        } else {
          status = model.message->append(content.data(), content.size());
          if (status == LWMQ_OK) model.frames.push_back({content, 0});
        }
        t_allocations_left = INT64_MAX;
        ASSERT_TRUE(status == LWMQ_OK || status == LWMQ_E_NO_MEMORY);
        failures += status == LWMQ_OK ? 0 : 1;
        for (const Model& each : models) each.check();
      }
      for (const Model& each : models) Message::destroy(each.message);
    }).join();
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(failures, 100) << "memory was hardly ever short";
  for (const auto& each : watched) {
    ASSERT_EQ(each->acquired, 1);
    ASSERT_EQ(each->released, 1);
  }
  for (const auto& each : refused) ASSERT_EQ(each->acquired + each->released, 0);
}

// rows: S07
TEST(MessageHandle, KeepsATimestampForEachFrameThatHasOne) {
  Message* message = Message::create();
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(message->append("frame", 5), LWMQ_OK);
    EXPECT_EQ(message->timestamp(i), 0u);
    EXPECT_EQ(message->has_timestamps(), i > 1);
    ASSERT_EQ(message->set_timestamp(i, i % 3 == 1 ? 1000 + i : 0), LWMQ_OK);
  }
  Message* second = message->reference();
  ASSERT_EQ(message->set_timestamp(1, 7), LWMQ_OK);
  EXPECT_EQ(message->timestamp(1), 7u);
  Message::destroy(message);
  for (std::uint32_t i = 0; i < 20; ++i) EXPECT_EQ(second->timestamp(i), i % 3 == 1 ? 1000 + i : 0u) << i;
  Message::destroy(second);
}

TEST(MessageHandle, RefusesToCopyMoreThanAnyBufferHolds) {
  Message* message = Message::create();
  EXPECT_EQ(message->append("", UINT64_MAX), LWMQ_E_TOO_BIG);
  EXPECT_STREQ(last_error(), "a frame of 18446744073709551615 bytes is not copied; at most 68719476736 are");
  EXPECT_EQ(message->append_static("", UINT64_MAX), LWMQ_OK) << "the size of a frame has 64 bits";
  EXPECT_EQ(message->frames()[0].bytes, UINT64_MAX);
  Message::destroy(message);
}

// rows: Z04
TEST(BlockPool, GivesBlocksAgainToTheThreadThatTakesThem) {
  void* first = message::take_block();
  message::give_block(first);
  EXPECT_EQ(message::take_block(), first);
  message::give_block(first);
}

TEST(BlockPool, HasMemoryOfAnySizeAndGivesWhatFitsABlockAgain) {
  constexpr std::size_t kPooledMax = (1 << 20) + kCacheLine;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{192}, std::size_t{193}, std::size_t{384},
                                  std::size_t{385}, std::size_t{1088}, std::size_t{1089}, std::size_t{4160},
                                  std::size_t{4161}, std::size_t{100'000}, kPooledMax, kPooledMax + 1}) {
    void* memory = message::take_memory(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % kCacheLine, 0u) << bytes;
    std::memset(memory, 0xff, bytes);
    message::give_memory(memory, bytes);
    const std::uint64_t before = t_allocations;
    void* again = message::take_memory(bytes);
    EXPECT_EQ(t_allocations - before, bytes <= kPooledMax ? 0u : 1u) << bytes;
    if (bytes <= kPooledMax) {
      EXPECT_EQ(again, memory) << bytes;
    }
    message::give_memory(again, bytes);
  }
}

TEST(BlockPool, BringsBlocksFromAThreadThatGivesToOneThatTakes) {
  constexpr int kBlocks = 10000;
  std::vector<void*> blocks(kBlocks);
  for (const std::size_t bytes : {192u, 384u, 1088u, 4160u}) {
    for (int round = 0; round < 3; ++round) {
      for (auto& block : blocks) ASSERT_NE(block = message::take_memory(bytes), nullptr);
      std::thread([&] {
        for (void* block : blocks) message::give_memory(block, bytes);
      }).join();
    }
  }
}

// rows: Z04
TEST(BlockPool, LetsLargeBlocksLeaveTheCacheOfWhoGaveThemBeforeTheyAreLentAgain) {
  constexpr std::size_t kBytes = 64 << 10;
  std::set<void*> seen;
  std::atomic<void*> passed{nullptr};
  std::atomic<bool> over{false};
  std::thread giver([&] {
    while (!over) {
      if (void* block = passed.exchange(nullptr); block != nullptr) message::give_memory(block, kBytes);
      std::this_thread::yield();
    }
  });
  for (int i = 0; i < 1000; ++i) {
    void* block = message::take_memory(kBytes);
    seen.insert(block);
    passed = block;
    while (passed != nullptr) std::this_thread::yield();
  }
  over = true;
  giver.join();
  EXPECT_GE(seen.size() * kBytes, std::size_t{4} << 20);
  EXPECT_LE(seen.size() * kBytes, std::size_t{8} << 20);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which keep books of all memory

std::uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

// A burst that waits somewhere, of small and of large messages, and is gone again, whoever gives it back: its
// memory is the system's then, but for what pool and slabs keep.
// rows: M18
TEST(BlockPool, GivesTheMemoryOfABurstBack) {
  constexpr std::uint64_t kBurst = std::uint64_t{256} << 20;
  constexpr std::uint64_t kKept = std::uint64_t{32} << 20;
  for (const std::size_t bytes : {8u, 1000u, 4000u, 40'000u, 1'000'000u}) {
    const std::uint64_t before = resident_bytes();
    std::vector<Message*> burst;
    const std::string content(bytes, 'b');
    while (resident_bytes() < before + kBurst) {
      for (int i = 0; i < 200; ++i) {
        Message* message = Message::copy_of(content.data(), content.size());
        ASSERT_NE(message, nullptr);
        burst.push_back(message);
      }
    }
    std::thread([&] {  // as the thread that ships
      for (Message* message : burst) Message::destroy(message);
    })
        .join();
    burst = {};
    EXPECT_LE(resident_bytes(), before + kKept) << "messages of " << bytes << " bytes";
  }
}

#endif

}  // namespace
}  // namespace lwmq
