// One address for many clients: each client gets a channel of its own, which never has another peer.
//
// The service thread accepts the clients. The application asks for them one by one, and its thread makes the
// channel. Until then what a client sends waits in its transport.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/failure.h"
#include "base/handle_mark.h"
#include "base/limits.h"
#include "base/status.h"
#include "channel/channel.h"
#include "conversation/settings.h"
#include "lwmq/lwmq.h"
#include "lwmq/lwmq_tli.h"
#include "os/unique_fd.h"
#include "service/service_thread.h"
#include "stats/page.h"

namespace lwmq::patterns {

using channel::Channel;

class Listener final : private service::Served {
 public:
  // Binds the address. `given` is for the channels.
  static Status open(const char* address, const lwmq_channel_options& given, Listener** out_listener);
  // Takes the listener, whether it was closed or not.
  static void destroy(Listener* listener);

  // Any thread, several at once. Gives a channel to the next client that waits, in the order of arrival.
  Status accept(std::uint32_t timeout_ms, Channel** out_channel);
  // Readable while a client waits, and after close. Lent until destroy.
  [[nodiscard]] std::int32_t descriptor() const noexcept { return bell_.get(); }
  [[nodiscard]] const std::string& address() const noexcept { return settings_.address; }
  // With the port that the system has chosen. Lent until close.
  [[nodiscard]] const char* bound_address() const noexcept;
  void query(lwmq_listener_statistics* out_statistics);
  // Any thread. Threads that wait in accept leave. Clients that nobody has accepted are disconnected.
  Status close();

  [[nodiscard]] bool is_alive() const noexcept { return mark_.is_alive(); }

 private:
  explicit Listener(conversation::Settings settings) noexcept : settings_(std::move(settings)) {}
  ~Listener() override = default;
  struct Deleter {
    void operator()(Listener* listener) const noexcept { delete listener; }
  };

  Status listen();
  std::int64_t serve(std::int64_t now_ns, bool alone) noexcept override;
  bool has_room();
  // Null: no client waits. `*out_client`: its number, from 1.
  lwmq_tli_transport* take_next(std::uint64_t* out_client);
  lwmq_tli_transport* pop_waiting() noexcept;
  void tell() noexcept;
  void count() noexcept;
  void await_callers();
  Status refuse_closed() const noexcept;

  const conversation::Settings settings_;
  os::UniqueFd bell_;                                  // an event; changed with the mutex
  std::atomic<std::uint32_t> changes_{0};              // futex
  std::atomic<lwmq_tli_listener*> listener_{nullptr};  // fixed from open to close
  std::atomic<bool> closed_{false};

  std::mutex mutex_;                                 // guards what follows
  lwmq_tli_transport* waiting_[kClientsWaitingMax];  // a ring: `clients_waiting_`, from the oldest
  std::uint32_t oldest_ = 0;
  std::uint32_t clients_waiting_ = 0;
  bool is_full_ = false;       // serve has found no room, and is to be called again
  std::uint32_t callers_ = 0;  // threads in accept
  std::condition_variable left_;
  std::uint64_t taken_ = 0;  // clients that accept has taken; the number of the last one
  std::uint64_t accepted_ = 0;
  std::uint64_t refused_ = 0;
  Failure refusal_;                      // the last refusal
  std::shared_ptr<stats::Entry> entry_;  // what tools see, until close
  HandleMark mark_;
};

}  // namespace lwmq::patterns
