// Both ends of a stream's conversation in one process, one of them played by the fuzzer: it says what it
// likes, and shows windows that exist.
#pragma once

#include <string>

#include "filters/filtered.h"
#include "input.h"
#include "lwmq/lwmq_tli.h"
#include "stream/link.h"

namespace lwmq::fuzz {

inline const lwmq_tli_provider* loop() {
  static const lwmq_tli_provider* provider = [] {
    const lwmq_tli_provider* found = nullptr;
    require(filters::find("loop://any", &found) == LWMQ_OK, "loop is linked");
    return found;
  }();
  return provider;
}

// Makes a window of 4 KiB or of a lap page's size, shows it, and says so in the bytes of a Window or a Lease.
template <typename Record>
std::string shown_window(stream::Link& link, Record record, std::uint64_t bytes) {
  stream::Window window;
  require(stream::Window::create(loop(), bytes, &window) == LWMQ_OK, "there is memory");
  window.copy_id(record.id);
  link.try_show(window);  // travels with a reference of its own
  return {reinterpret_cast<const char*>(&record), sizeof record};
}

// The next thing that the fuzzer says over `link`: a kind and bytes of its own making, or a window that
// exists.
inline void say(stream::Link& link, Input& input) {
  const auto kind = input.take<std::uint8_t>();
  if (kind == 200) {
    wire::Window record{};
    record.pool = input.take<std::uint8_t>();
    record.index = input.take<std::uint8_t>();
    record.window_bytes = 4096;
    const std::string bytes = shown_window(link, record, 4096);
    link.send(wire::StreamKind::kWindow, bytes.data(), bytes.size());
  } else if (kind == 201) {
    wire::Lease record{};
    record.pool = input.take<std::uint8_t>();
    const std::string bytes = shown_window(link, record, stream::kControlBuffers * 32 * 1024);
    link.send(wire::StreamKind::kLease, bytes.data(), bytes.size());
  } else {
    const std::string bytes = input.take_bytes(input.take<std::uint16_t>());
    link.send(static_cast<wire::StreamKind>(kind & 63), bytes.data(), bytes.size());
  }
}

// Takes what the other end answers, unread.
inline void hear(stream::Link& link) {
  wire::StreamKind kind{};
  std::string bytes;
  while (link.receive(&kind, &bytes) == LWMQ_OK) {
  }
}

}  // namespace lwmq::fuzz
