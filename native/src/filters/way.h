// The settings that several filters share: on which way they work (sending or landing), and on which extents.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "filters/random.h"
#include "filters/settings.h"
#include "lwmq/lwmq_tli.h"

namespace lwmq::filters {

// way=send, way=land or both. False: `way` is none of them.
inline bool take_way(Settings& settings, std::uint32_t* out_ways) {
  std::string text = "both";
  settings.take("way", &text);
  *out_ways = text == "send"   ? LWMQ_TLI_SENDING
              : text == "land" ? LWMQ_TLI_LANDING
                               : LWMQ_TLI_SENDING | LWMQ_TLI_LANDING;
  return *out_ways != 3 || text == "both";
}

// Which extents: a share of all by chance, or each n-th, of which one has to be said.
struct Choice {
  double share = -1;
  std::uint64_t every = 0;
  std::uint64_t seed = 1;

  void take(Settings& settings) {
    settings.take_share("share", &share);
    settings.take("every", &every);
    settings.take("seed", &seed);
  }
  // When everything was taken.
  Status done(Settings& settings) const {
    if (share < 0 && every == 0) settings.miss("share", "0 to 1 of all extents, or every=N for each N-th");
    return settings.done();
  }
  // Of the n-th extent, from 1.
  bool is_chosen(std::uint64_t number, Random& random) const noexcept {
    return (share > 0 && random.chance(share)) || (every > 0 && number % every == 0);
  }
};

}  // namespace lwmq::filters
