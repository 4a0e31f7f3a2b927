// The stream behind an endpoint: its clients, its log, and the parts that decide what becomes of their
// messages.
//
//   log/log.h   the batches, by partition and number, and what keeps each of them
//   pool.h      the windows of one writer: what readers are shown, and how blocks go back
//   jobs.h      producers: who may commit, and when the stream has ended
//   readers.h   what each reader is handed, and what may leave the log
//   writers.h   what writers and drivers of jobs declare, publish and commit
//   watch.h     readers that keep a writer waiting
//
// This file hands each message to its part, and tells the others of a stream what they must hear of. One
// thread at a time serves a stream.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "stats/page.h"
#include "stream/endpoint/client.h"
#include "stream/endpoint/jobs.h"
#include "stream/endpoint/readers.h"
#include "stream/endpoint/watch.h"
#include "stream/endpoint/writers.h"
#include "stream/log/log.h"

namespace lwmq::stream {

class Stream {
 public:
  explicit Stream(std::string address);

  void add(std::unique_ptr<Client> client) { clients_.push_back(std::move(client)); }
  // Closes every link in order.
  void close() { clients_.clear(); }
  // Serves each client once. False: nothing has come.
  bool poll();

  // Asks every link that the listener's descriptor becomes readable when there is news. False: there is some
  // already. *out_sleep_ms: after how long to look all the same; -1: never.
  bool arm(int* out_sleep_ms);
  void disarm();

  // Why the stream is not at rest; empty: it has no producer, and everything that can be read was read.
  [[nodiscard]] std::string unfinished() const;

 private:
  bool poll_client(Client& c);
  Status handle(Client& c, wire::StreamKind kind, const std::string& bytes);
  void spread_news();
  void leave(Client& c, Status why);
  void forget_left();
  void note_figures() noexcept;
  [[nodiscard]] wire::State state() const;

  const StreamId id_;
  Clients clients_;
  News news_;
  Log log_{&news_};
  Jobs jobs_{&log_, &news_};
  Readers readers_{&id_, &clients_, &log_, &jobs_, &news_};
  Writers writers_{&id_, &clients_, &log_, &jobs_, &readers_, &news_};
  Watch watch_{&id_, &clients_, &log_, &readers_, &news_};
  const std::shared_ptr<stats::Entry> entry_;  // what other processes see of the stream
};

}  // namespace lwmq::stream
