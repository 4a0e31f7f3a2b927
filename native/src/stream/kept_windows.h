// Windows that a process keeps for a while after their use: making and mapping memory costs more than filling
// and reading it (0.3-1.6 GB/s into new pages, 18-20 GB/s into warm ones). Any thread;
// never waits.
#pragma once

#include <cstdint>
#include <string>

#include "lwmq/lwmq_tli.h"

namespace lwmq::stream {

// A window of somebody else stays mapped for the next reader of this process: the tasks of a Spark job read
// the same windows one after the other. Takes one reference, and drops it 10 s after the last call for that
// window, when its owner has died, or when what is kept passes half of the process's window memory.
void keep_mapped(const lwmq_tli_provider* provider, lwmq_tli_window* window);

// A window of our own that nobody reads any more, for the next writer at the same address: never for another,
// whose readers may be other people. Takes the reference, and drops it after 30 s, when half is passed, or
// when a new window does not fit otherwise.
void keep_spare(const std::string& address, const lwmq_tli_provider* provider, lwmq_tli_window* window);
// One of `bytes_min` to `bytes_max` bytes, with its reference; null: there is none.
lwmq_tli_window* take_spare(const std::string& address, std::uint64_t bytes_min, std::uint64_t bytes_max);
// Gives the memory of all spare windows back. False when there were none.
bool drop_spares();

}  // namespace lwmq::stream
