// One end of a far:// transport: a side of its own, a mirror of the peer's, and a socket between them. No
// page is shared, so that whatever the two know of each other has come through the socket.
//
// Input: any thread that looks takes what has come, one at a time; a range needs no room but its own, so
// nothing has ever to be left in the socket. A thread that waits sleeps at the socket, and a second one
// behind the first. Output: whoever has something sends it, under a lock; what the socket does not take at
// once, and what is delayed, the service goes on with. That keeps a closed transport until all is out.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/status.h"
#include "lane/mirror.h"
#include "lane/outstanding.h"
#include "lane/record_lane.h"
#include "lwmq/lwmq_tli.h"
#include "os/segment.h"
#include "os/unique_fd.h"

namespace lwmq::far {

// An epoll descriptor: of a listener and of those that it has accepted, or of one transport.
using Door = std::shared_ptr<os::UniqueFd>;
Door make_door();

struct Parts {
  std::string address;
  lwmq_tli_options options{};
  lwmq_tli_peer peer{};
  os::UniqueFd socket;
  std::uint32_t delay_ms = 0;  // of what goes out
  Door door;                   // null: we have connected
};

class Transport;

// Memory that is pinned. A socket needs nothing of the kind: it is there to be checked against.
struct Region {
  Transport* transport;
  std::uint8_t* base;
  std::uint64_t bytes;
  std::uint32_t uses;
};

class Transport {
 public:
  // LWMQ_E_NO_MEMORY.
  static Status create(Parts parts, Transport** out_transport);

  void peer(lwmq_tli_peer* out_peer) const { *out_peer = parts_.peer; }
  std::int32_t state(lwmq_tli_figures* out_figures);
  Status acquire(lwmq_tli_buffer* out_buffer);
  Status show(lwmq_tli_buffer* buffer, std::uint64_t bytes, std::uint32_t kind);
  void flush();
  Status ship(lwmq_tli_buffer* buffer);
  void abandon(lwmq_tli_buffer* buffer);
  Status land(lwmq_tli_extent* out_extent);
  void release(lwmq_tli_extent* extent);
  Status wait(std::uint32_t what, std::uint32_t timeout_ms);
  std::int32_t arm(std::uint32_t what);
  std::int32_t descriptor();
  void close(std::uint32_t lent, std::uint64_t unsent);

  Status pin(void* base, std::uint64_t bytes, std::uint32_t uses, lwmq_tli_region** out_region);
  void unpin(Region* region);
  Status grant(const Region& region, std::uint64_t offset, std::uint64_t bytes, lwmq_tli_grant* out_grant);
  void revoke(const lwmq_tli_grant& grant) { mirror_.revoke(grant); }
  Status push(const lwmq_tli_grant& grant, std::uint64_t offset, const lwmq_bytes* pieces,
              std::uint32_t count, std::uint64_t token);
  std::uint32_t reap(std::uint64_t* out_tokens, std::uint32_t limit);

  // Until `stop` is set, between two calls of wake_service.
  static void serve(const volatile std::uint32_t* stop);
  static void wake_service();

 private:
  using Clock = std::chrono::steady_clock;
  struct Delayed {
    Clock::time_point due;
    std::vector<std::uint8_t> copied;
    iovec lent{};  // of a push: instead of a copy
    std::size_t sent = 0;
    std::uint32_t pushes = 0;  // that are finished with it
  };
  struct Service;

  explicit Transport(Parts parts) : parts_(std::move(parts)) {}
  ~Transport() = default;
  static Service& service();
  void drop_reference() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  void look();
  void ring_armed();
  bool read_all();
  void break_off(Status status);
  [[nodiscard]] bool is_ready(std::uint32_t what);
  std::int32_t has_news(std::uint32_t what);
  Status over();
  void say_received(std::uint32_t what);
  [[nodiscard]] bool is_pinned(const void* data, std::uint64_t bytes);
  void give_up();
  void finished(std::uint32_t pushes);
  void delay(Clock::time_point due, const iovec& piece);
  void want_service();
  void send_some();
  bool send_now();
  bool send_delayed();
  std::int64_t write(const iovec* pieces, std::size_t count);
  void freed(std::uint32_t index);
  void watch(std::uint32_t what);

  Parts parts_;
  os::Mapping own_;
  os::Mapping copy_;
  lane::Sides sides_;
  lane::Waker waker_;
  lane::LaneSender sender_;
  lane::LaneReceiver receiver_;
  lane::Outstanding outstanding_;
  std::atomic<std::uint32_t> references_{1};  // of whoever uses the transport, and of the service

  std::mutex in_mutex_;
  std::condition_variable came_;
  bool is_reading_ = false;  // under in_mutex_: somebody has the mirror in hand
  lane::Mirror mirror_;
  std::atomic<std::int32_t> end_{LWMQ_TLI_CONNECTED};
  Failure breach_;  // under in_mutex_: of a peer that broke the protocol
  std::atomic<bool> is_broken_{false};
  bool wants_room_ = false;
  std::atomic<bool> has_finished_{false};  // reap has something; stored under out_mutex_

  std::mutex regions_mutex_;
  std::vector<std::unique_ptr<Region>> regions_;

  std::mutex out_mutex_;  // guards what follows
  lane::MirrorFeed feed_;
  std::deque<Delayed> delayed_;
  // Rung when a push is finished. Made with the first one by the sending thread, which alone sleeps at it.
  os::UniqueFd reap_bell_;
  bool is_closed_ = false;
  bool is_served_ = false;   // the service has us among those that have something to send
  bool is_blocked_ = false;  // by the socket

  std::mutex door_mutex_;  // guards what follows
  Door own_door_;
  os::UniqueFd bell_;  // rung where another thread has read what an armed one waits for
  std::uint32_t armed_for_ = 0;
};

}  // namespace lwmq::far
