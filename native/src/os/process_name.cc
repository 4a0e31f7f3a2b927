#include "os/process_name.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "os/unique_fd.h"

namespace lwmq::os {

// /proc/PID/stat: number (name) state ...; the name may hold anything, also brackets.
std::string process_name(std::uint32_t pid) {
  std::string text = "process " + std::to_string(pid);
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%u/stat", pid);
  const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
  char line[256];
  const ssize_t bytes = file ? ::read(file.get(), line, sizeof line) : -1;
  if (bytes <= 0) return text;
  const std::string stat(line, static_cast<std::size_t>(bytes));
  const std::size_t begin = stat.find('('), end = stat.rfind(')');
  if (begin == std::string::npos || end == std::string::npos || end < begin || end + 2 >= stat.size())
    return text;
  text += " (";
  for (const char c : stat.substr(begin + 1, end - begin - 1))
    text += c >= ' ' && c != 127 ? c : '?';  // it is the peer's own choice
  const char state = stat[end + 2];
  if (state == 'T') text += ", stopped by a signal";
  if (state == 't') text += ", stopped by a debugger";
  return text + ")";
}

}  // namespace lwmq::os
