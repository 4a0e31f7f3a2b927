#include "conversation/peers.h"

#include <algorithm>
#include <cstring>

#include "base/failure.h"

namespace lwmq::conversation {
namespace {

// Channels of one process have numbers; 0 is none.
bool is_same(const lwmq_tli_peer& one, const lwmq_tli_peer& other) noexcept {
  return one.channel != 0 && one.channel == other.channel &&
         std::memcmp(one.instance, other.instance, sizeof one.instance) == 0;
}

}  // namespace

// With the mutex: the place of another conversation with the same channel of the same process, or null.
const Peers::Place* Peers::other_way_to(const lwmq_tli_peer& peer, const Place& own) const noexcept {
  const auto found = std::find_if(places_.begin(), places_.end(), [&](const Place& place) {
    return &place != &own && place.is_here && is_same(*place.peer, peer);
  });
  return found == places_.end() ? nullptr : &*found;
}

Status Peers::meet(std::size_t place, const lwmq_tli_peer& peer, bool redundant) noexcept {
  const std::lock_guard lock(mutex_);
  Place& own = places_[place];
  const Place* same = other_way_to(peer, own);
  if (same != nullptr && !redundant) {
    return fail(LWMQ_E_INVALID,
                "the peer at %s, a channel of %s, is reached over %s already: two transports of a channel "
                "lead to different peers, or are redundant on both sides, or every message would come twice",
                own.address.c_str(), peer.name, same->address.c_str());
  }
  if (!own.peer || !is_same(*own.peer, peer)) own.was_cut = false;
  own.peer = peer;
  own.is_here = true;
  ++own.met;
  return LWMQ_OK;
}

bool Peers::part(std::size_t place, bool redundant, bool drops, Status* status,
                 std::uint64_t* unsent) noexcept {
  const std::lock_guard lock(mutex_);
  Place& own = places_[place];
  own.is_here = false;
  const bool reached = other_way_to(*own.peer, own) != nullptr;
  if (!redundant) return reached;
  if (!parted_ || !is_same(parted_->peer, *own.peer)) parted_ = Parted{*own.peer};
  const bool closed = *status == LWMQ_E_CLOSED;
  if (!closed) own.was_cut = true;
  if (closed && !own.was_cut && !drops) parted_->brought_all = true;
  parted_->was_short = parted_->was_short || !closed;
  parted_->unsent = std::max(parted_->unsent, *unsent);
  if (parted_->brought_all && *status == LWMQ_E_PEER_LOST) {
    *status = LWMQ_E_CLOSED;
  } else if (!parted_->brought_all && parted_->was_short && closed) {
    *status = LWMQ_E_PEER_LOST;
    *unsent = parted_->unsent;
  }
  return reached;
}

void Peers::leave(std::size_t place) noexcept {
  const std::lock_guard lock(mutex_);
  places_[place].is_here = false;
}

Status Peers::tell(std::size_t place, lwmq_peer* out_peer) noexcept {
  const std::lock_guard lock(mutex_);
  const Place& own = places_[place];
  if (!own.peer) return LWMQ_E_EMPTY;
  out_peer->connected = own.is_here ? 1 : 0;
  out_peer->pid = own.peer->pid;
  out_peer->uid = own.peer->uid;
  out_peer->number = own.met;
  std::memcpy(out_peer->instance, own.peer->instance, sizeof out_peer->instance);
  return LWMQ_OK;
}

}  // namespace lwmq::conversation
