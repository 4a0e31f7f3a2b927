#include "os/process_name.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "os/unique_fd.h"

namespace lwmq::os {
namespace {

constexpr int kFieldsToExitCode = 49;  // behind the state

// /proc/PID/stat: number (name) state ...; the name may hold anything, also brackets.
struct Stat {
  std::string name;
  std::string rest;  // from the state on; empty: the process is not there, or another pid namespace's
};

Stat stat_of(std::uint32_t pid) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%u/stat", pid);
  const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
  char line[1024];
  const ssize_t bytes = file ? ::read(file.get(), line, sizeof line) : -1;
  if (bytes <= 0) return {};
  const std::string stat(line, static_cast<std::size_t>(bytes));
  const std::size_t begin = stat.find('('), end = stat.rfind(')');
  if (begin == std::string::npos || end == std::string::npos || end < begin || end + 2 >= stat.size())
    return {};
  return {stat.substr(begin + 1, end - begin - 1), stat.substr(end + 2)};
}

}  // namespace

std::string process_name(std::uint32_t pid) {
  std::string text = "process " + std::to_string(pid);
  const Stat stat = stat_of(pid);
  if (stat.rest.empty()) return text;
  text += " (";
  for (const char c : stat.name) text += c >= ' ' && c != 127 ? c : '?';  // it is the peer's own choice
  if (stat.rest[0] == 'T') text += ", stopped by a signal";
  if (stat.rest[0] == 't') text += ", stopped by a debugger";
  return text + ")";
}

std::string process_end(std::uint32_t pid) {
  const Stat stat = stat_of(pid);
  std::size_t at = 0;
  for (int field = 0; field < kFieldsToExitCode && at != std::string::npos; ++field)
    at = stat.rest.find(' ', at == 0 ? 0 : at + 1);
  if (stat.rest.empty() || at == std::string::npos) return "died";
  const int status = std::atoi(stat.rest.c_str() + at + 1);  // 0 also where we may not know
  if (WIFSIGNALED(status)) {
    const char* name = sigabbrev_np(WTERMSIG(status));
    return "was killed by " +
           (name == nullptr ? "signal " + std::to_string(WTERMSIG(status)) : "SIG" + std::string(name));
  }
  if (status != 0) return "ended with exit code " + std::to_string(WEXITSTATUS(status));
  return "died";
}

}  // namespace lwmq::os
