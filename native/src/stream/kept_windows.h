// Windows that a process keeps for a while after their use: making and mapping memory costs more than filling
// and reading it (0.3-1.6 GB/s into new pages, 18-20 GB/s into warm ones). Any thread;
// never waits.
#pragma once

#include <cstdint>
#include <string>

#include "stream/window.h"

namespace lwmq::stream {

// Keeps the window of another process mapped for the next reader of this process: the tasks of a Spark job
// read the same windows one after the other. Drops it 10 s after the last call for that window, when its
// owner has died, or when what is kept passes half of the process's window memory.
void keep_mapped(Window window);

// Keeps a window of our own that nobody reads any more for the next writer of this process, whichever stream
// it writes. `place` is what the addresses of both have before their name (place_of): whoever could map the
// window for the one may also reach the other. Drops the window after 30 s, when half is passed, or when a
// new window does not fit otherwise.
void keep_spare(const std::string& place, Window window);
// One of `bytes_min` to `bytes_max` bytes; null: there is none.
Window take_spare(const std::string& place, std::uint64_t bytes_min, std::uint64_t bytes_max);
// What an address has before its name. Names of one folder, and streams behind any of them, have one place.
std::string place_of(const std::string& address);
// Makes a window; where there is no memory, spare ones make way. As Window::create.
Status create_window(const lwmq_tli_provider* provider, std::uint64_t bytes, Window* out_window);

}  // namespace lwmq::stream
