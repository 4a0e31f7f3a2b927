// links: base os
#include "os/uring.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace lwmq::os {
namespace {

// A ring that reads one end of a connection. Skips the test where the kernel refuses io_uring.
struct UringTest : ::testing::Test {
  void SetUp() override {
    int both[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both), 0);
    ours = UniqueFd(both[0]);
    peer = UniqueFd(both[1]);
    if (Uring::open(&ring) == LWMQ_E_UNSUPPORTED) GTEST_SKIP() << last_error();
  }
  void say(const char* text) const {
    ASSERT_EQ(send(peer.get(), text, strlen(text), 0), static_cast<ssize_t>(strlen(text)));
  }
  void begin(bool all = false) { ring->begin(ours.get(), &message, all); }
  // "EAGAIN" and the like for an error.
  std::string finish(std::uint32_t timeout_ms) {
    const ssize_t got = ring->finish(timeout_ms);
    return got < 0 ? strerrorname_np(errno) : std::string(room, static_cast<std::size_t>(got));
  }

  UniqueFd ours, peer;
  char room[8] = {};
  iovec pieces[2] = {{room, 3}, {room + 3, sizeof room - 3}};
  msghdr message{.msg_name = nullptr,
                 .msg_namelen = 0,
                 .msg_iov = pieces,
                 .msg_iovlen = 2,
                 .msg_control = nullptr,
                 .msg_controllen = 0,
                 .msg_flags = 0};
  std::unique_ptr<Uring> ring;
};

TEST_F(UringTest, ReceivesWhatHasComeAndWhatComes) {
  say("hello");
  begin();
  EXPECT_EQ(finish(0), "hello");
  begin();
  std::thread speaking([this] { say("later"); });
  EXPECT_EQ(finish(LWMQ_FOREVER), "later");
  speaking.join();
  peer.reset();
  begin();
  EXPECT_EQ(finish(60'000), "") << "the end";
}

TEST_F(UringTest, LooksBeforeItSleeps) {
  begin();
  EXPECT_FALSE(ring->look(1000));
  say("hello");
  EXPECT_TRUE(ring->look(60'000'000'000));
  EXPECT_EQ(finish(0), "hello");
}

TEST_F(UringTest, WaitsForAllOfTheRoom) {
  say("half");
  begin(true);
  EXPECT_FALSE(ring->look(1000));
  say("half");
  EXPECT_EQ(finish(60'000), "halfhalf");
  begin(true);
  say("half");
  EXPECT_EQ(finish(1), "half") << "what has come when the time is over";
}

TEST_F(UringTest, WritesNothingWhenTheTimeIsOver) {
  begin();
  EXPECT_EQ(finish(1), "EAGAIN");
  say("later");
  begin();
  EXPECT_EQ(room[0], '\0');
  EXPECT_EQ(finish(0), "later") << "nothing is lost";
}

TEST_F(UringTest, ASignalEndsTheSleep) {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  struct sigaction before {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  for (const bool looks : {false, true}) {
    begin();
    if (looks) {
      EXPECT_FALSE(ring->look(1000));
    }
    const pthread_t sleeper = pthread_self();
    std::atomic<bool> is_over{false};
    std::thread striking([&] {
      while (!is_over) {
        pthread_kill(sleeper, SIGUSR1);
        usleep(1000);
      }
    });
    EXPECT_EQ(finish(60'000), "EINTR");
    is_over = true;
    striking.join();
  }
  sigaction(SIGUSR1, &before, nullptr);
  say("hello");
  begin();
  EXPECT_EQ(finish(0), "hello");
}

TEST_F(UringTest, SaysWhichCallAFilterRefuses) {
  for (const auto& [call, name] :
       {std::pair{SYS_io_uring_setup, "io_uring_setup"}, std::pair{SYS_io_uring_enter, "io_uring_enter"}}) {
    const auto refused = [&, number = static_cast<std::uint32_t>(call)] {
      sock_filter code[] = {
          BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      };
      const sock_fprog program{static_cast<unsigned short>(std::size(code)), code};
      std::unique_ptr<Uring> none;
      if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
          prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        std::exit(1);
      const Status status = Uring::open(&none);
      const bool is_named = strstr(last_error(), name) != nullptr && none == nullptr;
      std::exit(status == LWMQ_E_UNSUPPORTED && is_named ? 0 : 1);
    };
    EXPECT_EXIT(refused(), ::testing::ExitedWithCode(0), "") << name;
  }
}

}  // namespace
}  // namespace lwmq::os
