// links: base os
#include "os/memory_budget.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/limits.h"

namespace lwmq::os {
namespace {

// A /proc and a /sys/fs/cgroup of our own making.
class MemoryRoomTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "lwmq-room-" + std::to_string(getpid());
    std::filesystem::create_directory(root_);
    put("proc/meminfo", "MemTotal:  999999 kB\nMemFree:  1 kB\nMemAvailable:    1000 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void put(const std::string& path, const std::string& text) {
    const std::filesystem::path full = root_ + "/" + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  MemoryRoom read() { return read_memory_room((root_ + "/proc").c_str(), (root_ + "/cgroup").c_str()); }

  std::string root_;
};

TEST_F(MemoryRoomTest, IsWhatTheMachineHasAvailableWhereNoGroupSaysOtherwise) {
  EXPECT_EQ(read().free_bytes, 1000 * kKiB);
  EXPECT_STREQ(read().where, "MemAvailable");
}

TEST_F(MemoryRoomTest, IsTheTightestOfAllGroupsAboveUs) {
  put("proc/self/cgroup", "0::/pod/container\n");
  put("cgroup/pod/container/memory.max", "max\n");
  put("cgroup/pod/memory.max", "500000\n");
  put("cgroup/pod/memory.current", "300000\n");
  put("cgroup/pod/memory.stat", "anon 1\ninactive_file 100000\n");
  EXPECT_EQ(read().free_bytes, 300'000U);
  EXPECT_NE(std::string(read().where).find("pod/memory.max"), std::string::npos) << read().where;
  put("cgroup/pod/memory.current", "700000\n");
  EXPECT_EQ(read().free_bytes, 0U);
}

TEST_F(MemoryRoomTest, KnowsTheFirstVersionOfGroups) {
  put("proc/self/cgroup", "3:cpu:/a\n5:memory:/a\n1:name=systemd:/a\n");
  put("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("cgroup/memory/a/memory.limit_in_bytes", "200000\n");
  put("cgroup/memory/a/memory.usage_in_bytes", "50000\n");
  EXPECT_EQ(read().free_bytes, 150'000U);
}

TEST(MemoryBudget, RefusesWithAllNumbersAndForgetsWhatWasRefused) {
  set_window_memory(1000);
  EXPECT_EQ(reserve_window_memory(600), LWMQ_OK);
  EXPECT_EQ(reserve_window_memory(500), LWMQ_E_NO_MEMORY);
  const std::string text = last_error();
  for (const char* number : {"500", "600", "1000"}) EXPECT_NE(text.find(number), std::string::npos) << text;
  EXPECT_EQ(window_memory_held(), 600U);
  EXPECT_EQ(reserve_window_memory(400), LWMQ_OK);
  give_back_window_memory(1000);
  EXPECT_EQ(window_memory_held(), 0U);
  set_window_memory(0);
  EXPECT_EQ(reserve_window_memory(UINT64_MAX), LWMQ_E_NO_MEMORY);
}

}  // namespace
}  // namespace lwmq::os
