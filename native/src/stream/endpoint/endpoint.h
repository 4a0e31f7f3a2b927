// An endpoint serves one stream at one address: it accepts clients, and serves them.
//
// One thread at a time serves, under pump_mutex_. This is the endpoint's own thread, or the thread of a
// client in this process that has just sent something: the sender does the work itself and needs no hand-over
// to see it done. While a client serves, the own thread naps: peers then find no sleeper to wake, and two
// cores suffice, because no third thread wants one. A client that is going to sleep hands over.
#pragma once

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"
#include "lwmq/lwmq_tli.h"
#include "stream/endpoint/stream.h"

namespace lwmq::stream {

class Endpoint {
 public:
  // Binds `address` (without options) and starts serving. LWMQ_E_ADDRESS: somebody else does.
  static Status start(const lwmq_tli_provider* provider, const std::string& address,
                      std::shared_ptr<Endpoint>* out_endpoint);
  ~Endpoint();

  // Waits at most timeout_ms until every producer has ended and everything that can be read was read.
  // LWMQ_E_TIMED_OUT with a text: what is still there.
  Status drain(std::uint32_t timeout_ms);
  // Ends service at once; conversations see an orderly close. Joins the thread.
  void stop();

  // Serves once, if nobody else is at it. For a client of this process, after it has sent and while it waits.
  void pump();
  // The client that pumped is going to sleep: the own thread takes over at once.
  void hand_over();

  [[nodiscard]] const std::string& address() const noexcept { return address_; }

 private:
  Endpoint(const lwmq_tli_provider* provider, std::string address, lwmq_tli_listener* listener, int stop_fd);

  void serve();
  bool poll_once(bool look_for_clients);
  void arm_and_sleep(std::unique_lock<std::mutex>& lock);
  bool disarm();
  void nap();
  void ring() noexcept;
  void note_idle_state();
  void note_busy();

  const lwmq_tli_provider* provider_;
  const std::string address_;
  lwmq_tli_listener* listener_;
  const int stop_fd_;
  std::atomic<bool> stopping_{false};
  pthread_t thread_{};
  bool has_thread_ = false;

  std::mutex pump_mutex_;                   // guards all below but the last block
  bool armed_ = false;                      // the own thread sleeps at the listener's descriptor
  std::uint64_t pumped_ = 0;                // how often clients have served
  std::uint64_t pumped_seen_ = 0;           // the own thread's
  std::atomic<std::uint32_t> nap_word_{0};  // changed to end a nap
  std::atomic<bool> napping_{false};
  bool busy_noted_ = false;  // drain() knows that its answer is old
  Stream stream_;

  // What other threads may know: written by the thread, under the lock.
  mutable std::mutex idle_mutex_;
  std::condition_variable idle_changed_;
  bool idle_ = true;
};

}  // namespace lwmq::stream
