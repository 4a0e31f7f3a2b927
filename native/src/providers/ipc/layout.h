// What crosses the border between two processes, besides the sides of a transport (lane/record_lane.h).
//
// Little-endian, one machine. Everything here is written by one process and read by another, which copies a
// message before it looks at it and believes nothing in it that it has not checked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/limits.h"
#include "os/robust_words.h"

namespace lwmq::ipc {

// "LWMQ": begins every message on a socket and every process page.
inline constexpr std::uint32_t kMagic = 0x514d574c;

// ---- The process page: one sealed segment per process, mapped read-only by every peer ----------------
//
//    0       4         8       12    16         32                       64              8064    8192
//   +-------+---------+-------+-----+----------+------------------------+---------------+-------+
//   | magic | version | flags | pid | instance |                        | death words   |       |
//   +-------+---------+-------+-----+----------+------------------------+---------------+-------+
//
// Death word 0 speaks for the windows of the process; each transport gets one of the others, in turn.
inline constexpr std::uint32_t kDeathWords = 1000;
inline constexpr std::uint32_t kPageHasMembarrier = 1;  // flag: the process is registered for membarrier

struct ProcessPage {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t flags;
  std::uint32_t pid;
  std::uint8_t instance[16];
  std::uint8_t reserved[32];
  os::RobustSlot death[kDeathWords];
};
static_assert(offsetof(ProcessPage, death) == 64);
static_assert(sizeof(ProcessPage) == 8064);
inline constexpr std::uint64_t kProcessPageBytes = 8192;

// ---- Messages on the socket --------------------------------------------------------------------------
//
//    client                              listener
//      | hello + page, side                 |
//      |----------------------------------->|   checks, makes its side
//      |                hello + page, side  |
//      |<-----------------------------------|   or a refusal, and the socket closes
//      | met                                |
//      |----------------------------------->|   accepts; a client that gives up says nothing
//      | window notice + window, page       |
//      | doorbell + eventfd                 |
//      |<---------------------------------->|   any time later, both ways; of doorbells one
//
// Nobody waits for what comes later: whoever needs it reads the socket then.
//
// The first twelve bytes are the same in every version of the protocol, so that two versions can tell each
// other.
struct Head {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t kind;
};

enum MessageKind : std::uint32_t { kHello = 1, kRefusal = 2, kWindowNotice = 3, kMet = 4, kDoorbell = 5 };

struct Hello {
  Head head;
  std::uint32_t purpose;
  std::uint64_t buffer_bytes;  // of the sender's buffers
  std::uint64_t side_bytes;    // of its side: follows from the two numbers, and is compared
  std::uint32_t buffers;
  std::uint32_t buffers_receive;  // how many it maps at most; 0: any
  std::uint8_t instance[16];
  std::uint32_t pid;
  std::uint32_t death_word;  // in its page, for this transport
  std::uint32_t name_bytes;
  std::uint32_t channel;        // of its owner, 0: not said
  char name[kAddressBytesMax];  // the full name: two names may share a hash. Empty for socket files
};
static_assert(sizeof(Hello) == 72 + kAddressBytesMax);

struct Refusal {
  Head head;
  std::int32_t status;
  char text[496];
};
static_assert(sizeof(Refusal) == 512);

struct Met {
  Head head;
};
static_assert(sizeof(Met) == 12);

// What its sender waits at from now on, where it says so in `waiting` (lane/record_lane.h).
struct Doorbell {
  Head head;
};
static_assert(sizeof(Doorbell) == 12);

struct WindowNotice {
  Head head;
  std::uint32_t owner_pid;
  std::uint8_t id[16];
  std::uint8_t owner[16];
  std::uint64_t bytes;
};
static_assert(sizeof(WindowNotice) == 56);

union AnyMessage {
  Head head;
  Hello hello;
  Refusal refusal;
  Met met;
  WindowNotice window;
  std::uint8_t of_any_version[4096];  // a longer hello, too, must come in, for its head to be read
};

// ---- Limits of this provider -------------------------------------------------------------------------

inline constexpr std::uint32_t kNameCharactersMax = 119;
inline constexpr std::uint32_t kLossMs =
    100;  // the kernel marks a death word at once; a busy host takes a while
inline constexpr std::uint32_t kPendingHandshakesMax = 64;  // of one listener; others wait to connect
// Of a listener for one conversation, which is heard by one client at a time: those that believe to be
// connected. More than one, for one of them may be stopped.
inline constexpr std::size_t kAnsweredMax = 4;
inline constexpr std::int64_t kHandshakeNs =
    5'000'000'000;  // a client that has not said hello, or met, by then is dropped
inline constexpr std::int64_t kStalledNs = 1'000'000'000;  // it may give way to others before
inline constexpr std::uint32_t kWindowsUnfoundMax = 256;   // arrived over one transport and not looked for
inline constexpr std::size_t kFoundRememberedMin = 1024;  // ids of found windows, before the gone are dropped
inline constexpr std::int64_t kServiceStartNs =
    5'000'000'000;  // for the service thread to hold the death words
inline constexpr std::int64_t kDyingOwnerNs = 2'000'000'000;  // for the kernel to clear away a dead listener

}  // namespace lwmq::ipc
