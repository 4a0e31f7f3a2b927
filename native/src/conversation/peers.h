// Whom the conversations of one channel talk to: two of them with one peer are told apart from two peers.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "lwmq/lwmq.h"
#include "lwmq/lwmq_tli.h"

namespace lwmq::conversation {

// Any thread, from the time when all places were added.
class Peers {
 public:
  // Before open: the next place, of the conversation at `address`.
  void add_place(const std::string& address) { places_.push_back({address, {}, false, 0, false}); }

  // LWMQ_E_INVALID: another conversation has this peer already, and they are not `redundant`.
  Status meet(std::size_t place, const lwmq_tli_peer& peer, bool redundant) noexcept;
  // True: another conversation goes on with the peer that this one parts from. Of redundant ways the end is
  // the peer's, whichever comes last: it has closed where one of them has brought everything (none of it was
  // dropped: `drops`), and is lost where none has and one was short of `unsent`, or cut.
  bool part(std::size_t place, bool redundant, bool drops, Status* status, std::uint64_t* unsent) noexcept;
  // At our own close.
  void leave(std::size_t place) noexcept;
  // The present one, or the last. LWMQ_E_EMPTY: there was none.
  Status tell(std::size_t place, lwmq_peer* out_peer) noexcept;

 private:
  struct Place {
    std::string address;
    std::optional<lwmq_tli_peer> peer;  // the present one, or the last
    bool is_here = false;
    std::uint32_t met = 0;
    bool was_cut = false;  // from that one, before
  };
  // Of redundant ways to one peer, those that have ended.
  struct Parted {
    lwmq_tli_peer peer;
    bool brought_all = false;  // one of them
    bool was_short = false;
    std::uint64_t unsent = 0;  // the most that one of them never shipped
  };
  const Place* other_way_to(const lwmq_tli_peer& peer, const Place& own) const noexcept;

  std::mutex mutex_;  // guards what follows
  std::vector<Place> places_;
  std::optional<Parted> parted_;
};

}  // namespace lwmq::conversation
