// An endpoint serves the streams at one address: it accepts clients and gives each to the stream that it
// joins.
//
// One thread serves all endpoints of a process (service::ServiceThread::streaming). While nothing happens,
// every link is armed and the thread sleeps at the descriptors of the listeners. When one of them rings, the
// endpoint looks which of its streams has something; these are awake, and served in rounds, until nothing
// comes for a while.
//
// A stream that this process has made lives as long as the process uses it. One that a client of another
// process has made lives until it is unused; it keeps no endpoint alive.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "lwmq/lwmq_tli.h"
#include "service/service_thread.h"
#include "stream/endpoint/stream.h"

namespace lwmq::stream {

class Endpoint;

// A user of a stream in the process that serves it: a writer, a reader, a job or an endpoint of the
// application. Stream and endpoint live until the last user lets go.
class StreamUse {
 public:
  StreamUse() noexcept = default;
  StreamUse(std::shared_ptr<Endpoint> endpoint, Stream* stream) noexcept
      : endpoint_(std::move(endpoint)), stream_(stream) {}
  StreamUse(StreamUse&& other) noexcept
      : endpoint_(std::move(other.endpoint_)), stream_(std::exchange(other.stream_, nullptr)) {}
  StreamUse& operator=(StreamUse&& other) noexcept {
    std::swap(endpoint_, other.endpoint_);
    std::swap(stream_, other.stream_);
    return *this;
  }
  // Ends the stream at once where this was its last user.
  ~StreamUse();

  explicit operator bool() const noexcept { return stream_ != nullptr; }
  Stream* operator->() const noexcept { return stream_; }
  // Waits at most timeout_ms until the stream has no producer and everything that can be read was read. The
  // only user of the endpoint waits for all streams there. LWMQ_E_TIMED_OUT with a text: what is still there.
  [[nodiscard]] Status drain(std::uint32_t timeout_ms) const;
  // Lets go. The last user of the stream drains before; LWMQ_E_TIMED_OUT: it is a user still.
  Status leave(std::uint32_t timeout_ms);

 private:
  std::shared_ptr<Endpoint> endpoint_;
  Stream* stream_ = nullptr;
};

class Endpoint final : public service::Served, public std::enable_shared_from_this<Endpoint> {
 public:
  // Binds `address` (without options) and starts serving. LWMQ_E_ADDRESS: another process does.
  static Status start(const lwmq_tli_provider* provider, const std::string& address,
                      std::shared_ptr<Endpoint>* out_endpoint);
  ~Endpoint() override;

  // Makes the stream `name`. LWMQ_E_ADDRESS: it is there; LWMQ_E_NO_MEMORY: there are kStreamsMax.
  Status make(const std::string& name, StreamUse* out_use);
  // Joins the users of the stream `name`. Null: it is not there any more.
  StreamUse use(const std::string& name);

  // Without a name of a stream.
  [[nodiscard]] const std::string& address() const noexcept { return address_; }

  std::int64_t serve(std::int64_t now_ns, bool alone) noexcept override;

 private:
  friend StreamUse;
  using Streams = std::map<std::string, std::unique_ptr<Stream>>;
  // A client that has not joined a stream.
  struct Newcomer {
    std::unique_ptr<Client> client;
    bool is_armed = false;
  };

  Endpoint(const lwmq_tli_provider* provider, std::string address, lwmq_tli_listener* listener);

  // All with the mutex.
  void accept();
  bool serve_newcomers();
  void poll_newcomers();
  Status join(Newcomer* newcomer, const std::string& bytes);
  Status find(const wire::Join& letter, bool made_here, Stream** out_stream);
  Status create(const std::string& name, bool made_here, Stream** out_stream);
  [[nodiscard]] std::string names() const;
  void look_at_all(std::int64_t now_ns);
  void end(Stream& stream);
  [[nodiscard]] std::string what_is_left(Stream& first);
  StreamUse begin_use(Stream& stream);
  void let_go(Stream& stream);

  // Without.
  void catch_up();
  Status drain(Stream& stream, std::uint32_t timeout_ms, bool leaves);

  const lwmq_tli_provider* const provider_;
  const std::string address_;
  lwmq_tli_listener* const listener_;
  Common common_{this};

  std::mutex mutex_;  // guards all below; before the mutex of a stream, and that before the common one
  std::vector<Newcomer> newcomers_;
  std::uint32_t newcomers_idle_rounds_ = 0;
  std::int64_t newcomers_alarm_ns_ = service::kNever;  // when to look at those that could not be armed
  Streams streams_;                                    // by name
  std::vector<Stream*> awake_;                         // those that the thread serves
  std::int64_t alarm_ns_ = service::kNever;
};

}  // namespace lwmq::stream
