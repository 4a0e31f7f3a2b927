// loop://name - both ends in one process. The reference for the conformance suite: everything that the tables
// promise, over plain memory, with the record lane and nothing else.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "lane/outstanding.h"
#include "lane/patience.h"
#include "lane/record_lane.h"
#include "lwmq/lwmq_tli.h"
#include "os/segment.h"

namespace lwmq::loop {
struct Pair;
}  // namespace lwmq::loop

namespace lwmq::loop {

// Says that there is something: to accept, or for an armed transport that was accepted. A descriptor, or a
// call where the listener was opened with one. Kept by the ends that ring it.
class Bell {
 public:
  explicit Bell(const lwmq_tli_options& options) noexcept;
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;
  ~Bell();

  [[nodiscard]] int fd() const noexcept { return fd_; }  // -1: it calls
  void ring() noexcept;
  void drain() const noexcept;
  // Calls no more.
  void end() noexcept;

 private:
  int fd_ = -1;
  std::mutex mutex_;  // held while it calls
  void (*call_)(void* context);
  void* context_;
};

}  // namespace lwmq::loop

struct lwmq_tli_listener {
  std::string address;
  lwmq_tli_options options{};
  std::shared_ptr<lwmq::loop::Bell> bell;
  std::mutex mutex;
  std::deque<lwmq_tli_transport*> pending;  // connected and not yet accepted
  std::deque<std::string> refusals;         // texts that accept has still to answer
};

struct lwmq_tli_attempt {
  std::string address;
  lwmq_tli_options options;
};

struct lwmq_tli_transport {
  lwmq::loop::Pair* pair = nullptr;  // that it is a part of
  int end = 0;                       // which one we are
  lwmq::lane::Sides sides;
  lwmq::lane::Waker waker;
  lwmq::lane::LaneSender sender;
  lwmq::lane::LaneReceiver receiver;
  lwmq::lane::Announced announced;
  lwmq::lane::Patience patience;
  bool wants_room = false;                      // the sending thread's: its last acquire found none
  lwmq_tli_options options{};                   // ours
  lwmq_tli_options peer_options{};              // the other end's
  std::shared_ptr<lwmq::loop::Bell> own_bell;   // of the listener that accepted us
  std::shared_ptr<lwmq::loop::Bell> peer_bell;  // of the listener that accepted the other end: we ring it
  lwmq::lane::Outstanding outstanding;  // whoever has the last of it, or finds none at the close, ends us
};

// Both ends, and the memory of both sides; gone when the second end is.
struct lwmq::loop::Pair {
  ~Pair();

  lwmq_tli_transport ends[2];
  bool is_whole = false;  // both ends have all that they need
  std::atomic<std::uint32_t> ends_left{2};
  os::Mapping side[2];
  std::atomic<int> event[2]{-1, -1};  // descriptors of the ends' own, made when asked for
  std::mutex mutex;
  std::map<std::string, lwmq_tli_window*> shown;  // exported and not yet found: kept here on its way
};

struct lwmq_tli_window {
  lwmq_tli_window_info info{};
  std::atomic<std::uint32_t> references{1};
};
