// Whether an address for which a client waits in vain is served on this host, in another network namespace.
#pragma once

#include <string>

namespace lwmq::stream {

// Text to put behind an error about `address`: which process serves it in another network namespace than
// ours, and what to do. Empty where no process that we may look at does. Looks through /proc for some
// milliseconds, at most every five seconds in a process, and gives the last answer in between. Any thread.
std::string served_in_another_namespace(const std::string& address);

}  // namespace lwmq::stream
