// Receiving from many channels with one thread, in turns (RFC 970): each that has something gives one message
// before any gives its next, however much some of them send.
//
// The kernel's list of descriptors that are ready is the order: one that is still readable goes to its end.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>

#include "base/status.h"
#include "channel/roster.h"
#include "os/unique_fd.h"

namespace lwmq::channel {

class Channel;

class Selector {
 public:
  static Status create(Selector** out_selector);

  // Any thread, also while another one waits.
  Status add(Channel* channel);
  Status remove(Channel* channel);
  // Of every selector: the channel is about to be destroyed.
  static void forget_everywhere(Channel* channel) {
    OnRoster<Selector>::for_each([channel](Selector& selector) { selector.take_out(channel); });
  }

  // One thread at a time. The next that may have something.
  Status wait(std::uint32_t timeout_ms, Channel** out_channel);

 private:
  Status look(std::uint32_t timeout_ms);
  bool take_out(Channel* channel);

  const OnRoster<Selector> on_roster_{this};
  os::UniqueFd epoll_;
  std::mutex mutex_;  // guards what follows
  std::uint64_t next_number_ = 1;
  std::map<std::uint64_t, Channel*> channels_;
  std::deque<std::uint64_t> ready_;  // whose turn it is, from the last look
};

}  // namespace lwmq::channel
