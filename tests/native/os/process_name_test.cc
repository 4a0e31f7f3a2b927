// How a process is named in a text: whatever it calls itself, and whether it is stopped.
// links: base os
#include "os/process_name.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

namespace lwmq::os {
namespace {

TEST(ProcessName, SaysWhoItIsAndThatItIsStopped) {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_NAME, "a) T\x1b(b");
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  const std::string number = "process " + std::to_string(child);
  EXPECT_EQ(process_name(static_cast<std::uint32_t>(child)), number + " (a) T?(b, stopped by a signal)");
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(process_name(static_cast<std::uint32_t>(child)), number);
}

TEST(ProcessName, OfAProcessThatWeCannotSeeIsItsNumber) { EXPECT_EQ(process_name(0), "process 0"); }

}  // namespace
}  // namespace lwmq::os
