// Whatever can grow has a limit, and every limit has its name here.
#pragma once

#include <cstdint>

namespace lwmq {

inline constexpr std::uint32_t kProtocolVersion = 12;  // of the wire and of shared memory, together
inline constexpr const char* kLibraryVersion = "0.1.0";

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

// Transports.
inline constexpr std::uint32_t kBuffersMax = 4000;  // both directions of one transport together
inline constexpr std::uint64_t kBufferBytesMin = 256;
inline constexpr std::uint64_t kBufferBytesMax = 64 * kGiB;  // memory is the real limit
inline constexpr std::uint32_t kAddressBytesMax = 512;
inline constexpr std::uint32_t kGrantsMax = 1024;  // of one transport, to its peer
inline constexpr std::uint32_t kPushesMax = 64;    // of one transport, not yet reaped

// Channels.
inline constexpr std::uint32_t kClientsWaitingMax = 128;  // to be accepted: each has its buffers

// Messages.
inline constexpr std::uint32_t kFramesMax = 65535;
inline constexpr std::uint64_t kInlineBytesMax = 128;  // of a frame that lies in its message

// Send queues.
inline constexpr std::uint32_t kWeightMax = 65535;          // of a priority group
inline constexpr std::uint32_t kNumberedQueuesMax = 65536;  // whose numbers a channel remembers

// Streams.
inline constexpr std::uint32_t kStreamsMax = 1024;        // behind one address
inline constexpr std::uint32_t kStreamNameBytesMax = 63;  // as much as a statistics page shows
inline constexpr std::uint32_t kPartitionsMax = 16384;
inline constexpr std::uint64_t kSchemaBytesMax = 64 * kMiB;
inline constexpr std::uint64_t kLetterBytesMax = kSchemaBytesMax + 2 * kMiB;  // of a control message
inline constexpr std::uint32_t kWindowSlotsMax = 65536;  // batches of one writer not yet released
inline constexpr std::uint32_t kReaderCreditMax = 4096;
inline constexpr std::uint32_t kNameBytesMax = 255;  // of a reader, a job
inline constexpr std::uint32_t kReasonBytesMax = 512;
inline constexpr std::uint32_t kRangesMax = 16384;       // of one reader
inline constexpr std::uint32_t kTaskCommitsMax = 65536;  // of one job commit

// Patience.
inline constexpr std::uint32_t kStallMs = 5000;  // for how long a peer that lives may leave us without a word
inline constexpr std::uint32_t kPulsePauseMsMax =
    80'000;  // between questions whether an idle endpoint still answers

}  // namespace lwmq
