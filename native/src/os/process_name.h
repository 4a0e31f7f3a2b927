// How a process is named in a text that a person reads.
#pragma once

#include <cstdint>
#include <string>

namespace lwmq::os {

// "process 4711 (python3)"; "process 4711 (python3, stopped by a signal)" where the kernel says so. A process
// of another pid namespace (0), or one that has gone, is named by its number alone.
std::string process_name(std::uint32_t pid);

// How a process that has lost its connections has ended, as far as the kernel still tells: "was killed by
// SIGKILL", "ended with exit code 1", or just "died".
std::string process_end(std::uint32_t pid);

}  // namespace lwmq::os
