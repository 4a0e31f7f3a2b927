// What the RDMA connections of this process have asked of their devices. Tests and benchmarks compare them
// with the messages that went.
#pragma once

#include <atomic>
#include <cstdint>

namespace lwmq::rdma {

struct Counters {
  std::atomic<std::uint64_t> writes{0};         // RDMA WRITE
  std::atomic<std::uint64_t> sends{0};          // SEND
  std::atomic<std::uint64_t> asks{0};           // RDMA READ of no bytes: asks for a sign of life
  std::atomic<std::uint64_t> signalled{0};      // of all of them, with a completion
  std::atomic<std::uint64_t> registrations{0};  // memory regions that were made
  std::atomic<std::uint64_t> regions{0};        // memory regions that there are now
  std::atomic<std::uint64_t> copied_bytes{0};   // of memory that the device does not take, by way of our own
  std::atomic<std::uint64_t> wake_ups{0};       // completion events
};

inline Counters& counters() noexcept {
  static Counters instance;
  return instance;
}

}  // namespace lwmq::rdma
