// Other processes for tests: this executable again, in a role in place of its tests. It is a fresh process,
// so it can be killed, and it shares nothing with the test but its argument.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace lwmq::testing {

class Child {
 public:
  // Starts this executable as `role`, with `argument` for it.
  Child(const std::string& role, const std::string& argument) {
    int up[2];
    int down[2];
    if (pipe(up) != 0 || pipe(down) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      dup2(down[0], 0);
      dup2(up[1], kReportFd);
      for (const int fd : {up[0], up[1], down[0], down[1]}) {
        if (fd != 0 && fd != kReportFd) close(fd);
      }
      setenv("LWMQ_CHILD_ROLE", role.c_str(), 1);
      setenv("LWMQ_CHILD_ARGUMENT", argument.c_str(), 1);
      execl("/proc/self/exe", "child", "--gtest_output=", nullptr);
      _exit(127);
    }
    close(up[1]);
    close(down[0]);
    from_child_ = up[0];
    to_child_ = down[1];
    fcntl(from_child_, F_SETFD, FD_CLOEXEC);
    fcntl(to_child_, F_SETFD, FD_CLOEXEC);
  }
  ~Child() {
    kill();
    close(from_child_);
    close(to_child_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }

  // The next line that the child reports; empty when it has ended.
  std::string line() {
    std::string text;
    char byte = 0;
    while (read(from_child_, &byte, 1) == 1 && byte != '\n') text += byte;
    return text;
  }

  void say(char what) { [[maybe_unused]] const auto written = write(to_child_, &what, 1); }

  // SIGKILL, without waiting for its end: what a peer sees then is the point of the test.
  void strike() { ::kill(pid_, SIGKILL); }

  // Its threads run on for a moment after kill(2) has returned, on another core: waits for the last of them.
  [[nodiscard]] bool stop() const {
    siginfo_t ignored;
    return ::kill(pid_, SIGSTOP) == 0 && waitid(P_PID, static_cast<id_t>(pid_), &ignored, WSTOPPED) == 0;
  }

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    wait();
  }

  // Its exit status; -1 when a signal ended it.
  int wait() {
    if (pid_ <= 0) return -1;
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  // For the child itself.
  static const char* argument() { return std::getenv("LWMQ_CHILD_ARGUMENT"); }
  static void report(const std::string& text) {
    const std::string line = text + "\n";
    if (write(kReportFd, line.data(), line.size()) < 0) _exit(1);
  }
  static char hear() {
    char what = 0;
    return read(0, &what, 1) == 1 ? what : '\0';
  }

 private:
  static constexpr int kReportFd = 9;
  pid_t pid_ = -1;
  int from_child_ = -1;
  int to_child_ = -1;
};

// The roles of this executable. Where the environment names one, it runs when the tests would begin, and
// nothing else.
class Roles : public ::testing::Environment {
 public:
  static int add(const char* name, void (*body)()) {
    static auto* roles = static_cast<Roles*>(::testing::AddGlobalTestEnvironment(new Roles));
    roles->bodies_[name] = body;
    return 0;
  }

  void SetUp() override {
    const char* name = std::getenv("LWMQ_CHILD_ROLE");
    if (name == nullptr) return;
    const auto found = bodies_.find(name);
    if (found == bodies_.end()) _exit(126);
    found->second();
    _exit(HasFailure() ? 1 : 0);
  }

 private:
  static bool HasFailure() { return ::testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed(); }
  std::map<std::string, void (*)()> bodies_;
};

}  // namespace lwmq::testing

// A role. Its body runs in the child alone.
#define LWMQ_CHILD_ROLE(role)                                                              \
  static void role();                                                                      \
  [[maybe_unused]] static const int role##_added = lwmq::testing::Roles::add(#role, role); \
  static void role()
