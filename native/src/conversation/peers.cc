#include "conversation/peers.h"

#include <algorithm>
#include <cstring>

namespace lwmq::conversation {

// Channels of one process have numbers from 1; 0 is unknown.
bool Peers::is_same(const lwmq_tli_peer& one, const lwmq_tli_peer& other) noexcept {
  return one.channel != 0 && one.channel == other.channel &&
         std::memcmp(one.instance, other.instance, sizeof one.instance) == 0;
}

// Another connected transport to the same channel of the same process, or null.
const Peers::Way* Peers::other_way_to(std::size_t place, const lwmq_tli_peer& peer) const noexcept {
  const auto found = std::find_if(ways_.begin(), ways_.end(), [&](const Way& way) {
    return &way != &ways_[place] && way.is_connected && is_same(*way.peer, peer);
  });
  return found == ways_.end() ? nullptr : &*found;
}

Status Peers::meet(std::size_t place, const lwmq_tli_peer& peer, bool redundant) noexcept {
  const std::lock_guard lock(mutex_);
  Way& way = ways_[place];
  const Way* same = other_way_to(place, peer);
  if (same != nullptr && !redundant) {
    return fail(LWMQ_E_INVALID,
                "the peer at %s, a channel of %s, is reached over %s already: two transports of a channel "
                "lead to different peers, or are redundant on both sides, or every message would come twice",
                way.address, peer.name, same->address);
  }
  if (!way.peer || !is_same(*way.peer, peer)) way.was_cut = false;
  way.peer = peer;
  way.is_connected = true;
  ++way.peers_met;
  return LWMQ_OK;
}

bool Peers::part(std::size_t place, bool redundant, bool brings_all, Status* status,
                 std::uint64_t* unsent) noexcept {
  const std::lock_guard lock(mutex_);
  Way& way = ways_[place];
  way.is_connected = false;
  if (redundant) {
    if (!parted_ || !is_same(parted_->peer, *way.peer)) parted_ = Parted{*way.peer};
    const bool closed = *status == LWMQ_E_CLOSED;
    if (!closed) way.was_cut = true;
    if (closed && !way.was_cut && brings_all) parted_->brought_all = true;
    parted_->was_short = parted_->was_short || !closed;
    parted_->unsent = std::max(parted_->unsent, *unsent);
    if (parted_->brought_all && *status == LWMQ_E_PEER_LOST) {
      *status = LWMQ_E_CLOSED;
    } else if (!parted_->brought_all && parted_->was_short && closed) {
      *status = LWMQ_E_PEER_LOST;
      *unsent = parted_->unsent;
    }
  }
  return other_way_to(place, *way.peer) != nullptr;
}

void Peers::leave(std::size_t place) noexcept {
  const std::lock_guard lock(mutex_);
  ways_[place].is_connected = false;
}

Status Peers::query(std::size_t place, lwmq_peer* out_peer) noexcept {
  const std::lock_guard lock(mutex_);
  const Way& way = ways_[place];
  if (!way.peer) return LWMQ_E_EMPTY;
  out_peer->connected = way.is_connected ? 1 : 0;
  out_peer->pid = way.peer->pid;
  out_peer->uid = way.peer->uid;
  out_peer->number = way.peers_met;
  std::memcpy(out_peer->instance, way.peer->instance, sizeof out_peer->instance);
  return LWMQ_OK;
}

}  // namespace lwmq::conversation
