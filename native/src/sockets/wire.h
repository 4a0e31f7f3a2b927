// The first words over a connection over sockets, before the mirrored lane begins (lane/mirror_head.h).
// Little-endian.
//
//    client                              listener
//      | hello                              |
//      |----------------------------------->|   checks
//      |                              hello |
//      |<-----------------------------------|   or a refusal, and the connection ends
//      | heads and bytes of the lanes       |
//      |<---------------------------------->|
//
// The first twelve bytes are the same in every version of the protocol, so that two versions can tell each
// other.
#pragma once

#include <cstdint>

#include "base/limits.h"

namespace lwmq::sockets {

inline constexpr std::uint32_t kMagic = 0x544d574c;  // "LWMT"

enum class Kind : std::uint32_t { kHello = 1, kRefusal = 2 };

struct Hello {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t kind;
  std::uint32_t purpose;
  std::uint64_t buffer_bytes;  // of the sender's buffers
  std::uint32_t buffers;
  std::uint32_t buffers_receive;  // how many of the peer's it accepts at most; 0: any
  std::uint8_t instance[16];
  std::uint8_t boot[16];  // of the sender's host: tells whether its pid means something here
  std::uint32_t pid;
  std::uint32_t uid;
  std::uint32_t channel;
  std::uint32_t name_bytes;
  char name[120];  // of the listener behind the port
};
static_assert(sizeof(Hello) == 200);

struct Refusal {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t kind;
  std::int32_t status;
  char text[184];
};
static_assert(sizeof(Refusal) == sizeof(Hello));

union Greeting {
  Hello hello;
  Refusal refusal;
};

}  // namespace lwmq::sockets
