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

// How a child has ended that nobody has waited for yet.
std::string end_of(void (*how)()) {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_NAME, "9 9) 9");
    how();
  }
  siginfo_t info{};
  EXPECT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  const std::string end = process_end(static_cast<std::uint32_t>(child));
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(process_end(static_cast<std::uint32_t>(child)), "died") << "nothing is left of it";
  return end;
}

TEST(ProcessEnd, IsASignalOrAnExitCodeWhileTheKernelStillTells) {
  EXPECT_EQ(end_of([] { kill(getpid(), SIGKILL); }), "was killed by SIGKILL");
  EXPECT_EQ(end_of([] { _exit(7); }), "ended with exit code 7");
  EXPECT_EQ(end_of([] { _exit(0); }), "died");
}

TEST(ProcessEnd, OfAProcessThatWeCannotSeeIsNotKnown) { EXPECT_EQ(process_end(0), "died"); }

}  // namespace
}  // namespace lwmq::os
