// One address, many clients: each that comes gets a channel of its own, which has no other peer ever.
//
// The attending service thread takes who comes; the application asks for them one by one, and its thread
// makes the channel. Until then what a client sends waits in its transport.
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
using conversation::Settings;

class Listener final : private service::Served {
 public:
  // Binds. `given` is for the channels.
  static Status open(const char* address, const lwmq_channel_options& given, Listener** out_listener);
  // Takes the listener, closed or not.
  static void destroy(Listener* listener);

  // Any thread, several at once. The next client that waits, in the order in which they came.
  Status accept(std::uint32_t timeout_ms, Channel** out_channel);
  // Readable while a client waits, and behind close. Lent until destroy.
  [[nodiscard]] std::int32_t descriptor() const noexcept { return bell_.get(); }
  // Where clients reach it.
  [[nodiscard]] const std::string& address() const noexcept { return settings_.address; }
  void query(lwmq_listener_statistics* out_statistics);
  // Any thread. Those who wait in accept leave; clients that nobody has accepted are parted from.
  Status close();

  [[nodiscard]] bool is_alive() const noexcept { return mark_.is_alive(); }

 private:
  explicit Listener(Settings settings) noexcept : settings_(std::move(settings)) {}
  ~Listener() override = default;
  struct Deleter {
    void operator()(Listener* listener) const noexcept { delete listener; }
  };

  Status listen();
  void leave(lwmq_tli_listener* listener) noexcept;
  std::int64_t serve(std::int64_t now_ns, bool alone) noexcept override;
  bool has_room();
  // Null: nobody waits. `*out_client`: its number, from 1.
  lwmq_tli_transport* take_next(std::uint64_t* out_client);
  lwmq_tli_transport* pop_waiting() noexcept;
  void tell() noexcept;
  void count() noexcept;
  void await_callers();
  Status refuse_closed() const noexcept;

  Settings settings_;                                  // fixed from open on
  os::UniqueFd bell_;                                  // an event; readable or not under the mutex
  std::atomic<std::uint32_t> changes_{0};              // futex
  std::atomic<lwmq_tli_listener*> listener_{nullptr};  // fixed from open to close
  std::atomic<bool> closed_{false};

  std::mutex mutex_;                                 // guards what follows
  lwmq_tli_transport* waiting_[kClientsWaitingMax];  // a ring: `clients_waiting_`, from the oldest
  std::uint32_t oldest_ = 0;
  std::uint32_t clients_waiting_ = 0;
  bool is_full_ = false;       // serve has left for it, and is to be asked again
  std::uint32_t callers_ = 0;  // in accept
  std::condition_variable left_;
  std::uint64_t taken_ = 0;  // by accept; the last one's number
  std::uint64_t accepted_ = 0;
  std::uint64_t refused_ = 0;
  Failure refusal_;                      // the last one
  std::shared_ptr<stats::Entry> entry_;  // what others see of it; until it is closed
  HandleMark mark_;
};

}  // namespace lwmq::patterns
