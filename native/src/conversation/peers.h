// Who is at the other end of each transport of a channel.
//
// Peers of several transports are compared: two transports may lead to the same channel of another process
// only if they are redundant. Then the end of that peer is reported once, when the last of its ways has
// ended.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "base/status.h"
#include "lwmq/lwmq.h"
#include "lwmq/lwmq_tli.h"

namespace lwmq::conversation {

// Any thread.
class Peers {
 public:
  // Before the channel is opened: a further transport, number `place`. `address` is valid as long as it is
  // used.
  void add_transport(std::size_t place, const char* address) {
    ways_.resize(place + 1);
    ways_[place].address = address;
  }

  // Transport `place` has connected to `peer`. LWMQ_E_INVALID: another transport leads to the same channel
  // already, and they are not redundant.
  Status meet(std::size_t place, const lwmq_tli_peer& peer, bool redundant) noexcept;
  // Transport `place` has lost its peer with *status, and the peer had *unsent messages that it never
  // shipped. True: another transport still leads to that peer. Where transports are redundant, the last one
  // to end reports for all: *status is LWMQ_E_CLOSED if one of them has brought everything, and
  // LWMQ_E_PEER_LOST with the largest *unsent if none has and one was cut. `brings_all`: no filter has
  // dropped anything here.
  bool part(std::size_t place, bool redundant, bool brings_all, Status* status,
            std::uint64_t* unsent) noexcept;
  // Transport `place` is closed on this side.
  void leave(std::size_t place) noexcept;
  // The present peer of transport `place`, or its last one. LWMQ_E_EMPTY: there was none.
  Status query(std::size_t place, lwmq_peer* out_peer) noexcept;

 private:
  struct Way {
    const char* address = nullptr;
    std::optional<lwmq_tli_peer> peer;  // the present one, or the last
    bool is_connected = false;
    std::uint32_t peers_met = 0;
    bool was_cut = false;  // an earlier connection to this peer was lost
  };
  // A peer with redundant ways, of which some have ended.
  struct Parted {
    lwmq_tli_peer peer;
    bool brought_all = false;  // one way has
    bool was_short = false;
    std::uint64_t unsent = 0;  // the most that one way never shipped
  };

  static bool is_same(const lwmq_tli_peer& one, const lwmq_tli_peer& other) noexcept;
  const Way* other_way_to(std::size_t place, const lwmq_tli_peer& peer) const noexcept;

  std::mutex mutex_;  // guards what follows
  std::vector<Way> ways_;
  std::optional<Parted> parted_;
};

}  // namespace lwmq::conversation
