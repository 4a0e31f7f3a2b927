// What a peer showed before it closed, over providers whose bytes wait for the peer to take them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "conformance/transport_pair.h"

namespace lwmq::conformance {

// More than a connection takes at once is shown, `bytes` in each buffer of `buffer_bytes`, and then the
// sender closes: everything lands, and behind it the end.
inline void comes_whole_behind_a_close(const std::string& address, std::uint64_t buffer_bytes,
                                       std::uint64_t bytes) {
  constexpr std::uint32_t kBuffers = 16;
  Pair pair(address, kBuffers, buffer_bytes);
  run_service(pair.tli);
  for (std::uint32_t i = 0; i < kBuffers; ++i) {
    lwmq_tli_buffer buffer{};
    ASSERT_EQ(pair.tli.acquire(pair.client, &buffer), LWMQ_OK);
    std::memset(buffer.next, static_cast<int>(i), bytes);
    ASSERT_EQ(pair.tli.show(pair.client, &buffer, bytes, i), LWMQ_OK);
    ASSERT_EQ(pair.tli.ship(pair.client, &buffer), LWMQ_OK);
  }
  pair.close(&pair.client);
  for (std::uint32_t i = 0; i < kBuffers; ++i) {
    calls::Extent extent;
    ASSERT_EQ(pair.land(pair.served, &extent), LWMQ_OK) << last_error();
    ASSERT_EQ(extent.bytes, bytes);
    ASSERT_EQ(extent.kind, i);
    for (std::uint64_t k = 0; k < bytes; ++k) ASSERT_EQ(extent.data[k], i);
    pair.tli.release(pair.served, &extent);
  }
  calls::Extent none;
  EXPECT_EQ(pair.land(pair.served, &none), LWMQ_E_CLOSED);
}

}  // namespace lwmq::conformance
