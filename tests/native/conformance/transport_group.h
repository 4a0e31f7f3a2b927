// Channels with two transports.
#pragma once

#include <string>

#include "conformance/channel_fixture.h"

namespace lwmq::conformance {

inline void add_transport(const End& end, const std::string& address, bool redundant) {
  lwmq_transport_options further{};
  further.size = sizeof further;
  further.redundant = redundant ? 1 : 0;
  ASSERT_EQ(lwmq_channel_add_transport(end.channel, address.c_str(), &further), LWMQ_OK) << lwmq_last_error();
}

// A channel at both addresses, with one send queue.
inline End end_at_both(const std::string (&places)[2], std::int32_t role, bool redundant,
                       const lwmq_channel_options& options = channel_options(1024, 8)) {
  End end;
  end.create(places[0], options);
  add_transport(end, places[1], redundant);
  EXPECT_EQ(lwmq_channel_open(end.channel, role), LWMQ_OK) << lwmq_last_error();
  return end;
}

}  // namespace lwmq::conformance
