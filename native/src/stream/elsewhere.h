// Whether an address that we wait for in vain is served on this host after all, where we cannot reach it.
#pragma once

#include <string>

namespace lwmq::stream {

// What to say behind a text about `address`: which process serves it in another network namespace than ours,
// and what to do; nothing where none does that we may see. For waits that end in vain: looks through /proc
// for some milliseconds, at most every five seconds in a process, and gives the last answer in between. Any
// thread.
std::string served_elsewhere(const std::string& address);

}  // namespace lwmq::stream
