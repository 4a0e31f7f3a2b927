// links: base os
#include "os/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace lwmq::os {
namespace {

TEST(Segment, IsWritableForItsOwnerAndReadableForThePeerAndForNobodyMore) {
  Segment segment;
  ASSERT_EQ(create_segment("test", 10'000, &segment), LWMQ_OK) << last_error();
  std::strcpy(reinterpret_cast<char*>(segment.memory.data()), "shared");
  Mapping peer;
  ASSERT_EQ(map_foreign_segment(segment.fd.get(), 10'000, Populate::kYes, &peer), LWMQ_OK) << last_error();
  EXPECT_STREQ(reinterpret_cast<const char*>(peer.data()), "shared");
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, segment.fd.get(), 0), MAP_FAILED);
  EXPECT_NE(ftruncate(segment.fd.get(), 0), 0) << "a peer that shrank it would give us SIGBUS";
  EXPECT_NE(ftruncate(segment.fd.get(), 20'000), 0);
  EXPECT_NE(write(segment.fd.get(), "x", 1), 1);
}

TEST(Segment, OfAnotherSizeThanAnnouncedIsRefusedWithBothNumbers) {
  Segment segment;
  ASSERT_EQ(create_segment("test", 4096, &segment), LWMQ_OK);
  Mapping peer;
  EXPECT_EQ(map_foreign_segment(segment.fd.get(), 8192, Populate::kNo, &peer), LWMQ_E_CORRUPT);
  EXPECT_STREQ(last_error(), "a segment arrived with 4096 bytes, announced were 8192");
}

TEST(Segment, WithoutItsSealsIsRefused) {
  const UniqueFd fd(memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(fd.get(), 4096), 0);
  Mapping peer;
  for (const int seal : {0, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL}) {
    ASSERT_EQ(fcntl(fd.get(), F_ADD_SEALS, seal), 0);
    EXPECT_EQ(map_foreign_segment(fd.get(), 4096, Populate::kNo, &peer), LWMQ_E_CORRUPT);
  }
  const UniqueFd pipe_end(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(map_foreign_segment(pipe_end.get(), 4096, Populate::kNo, &peer), LWMQ_E_CORRUPT);
}

}  // namespace
}  // namespace lwmq::os
