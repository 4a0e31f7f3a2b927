// The writers of a stream and the drivers of its jobs: what they declare, publish and commit, and how they
// end.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "stream/endpoint/client.h"
#include "stream/endpoint/jobs.h"
#include "stream/endpoint/readers.h"
#include "stream/log/log.h"

namespace lwmq::stream {

class Writers {
 public:
  Writers(const StreamId* id, const Clients* clients, Log* log, Jobs* jobs, Readers* readers,
          News* news) noexcept
      : id_(*id), clients_(*clients), log_(*log), jobs_(*jobs), readers_(*readers), news_(*news) {}

  // Messages of clients. A failure ends the conversation.
  Status open(Client& c, const std::string& bytes);
  Status open_job(Client& c, const std::string& bytes);
  static Status add_window(Client& c, const std::string& bytes);
  Status publish(Client& c, const std::string& bytes);
  Status want_room(Client& c, const std::string& bytes);
  Status commit_task(Client& c);
  Status commit_job(Client& c, const std::string& bytes);
  Status close(Client& c);
  Status abort(Client& c, const std::string& bytes);
  Status close_job(Client& c);
  Status abort_job(Client& c, const std::string& bytes);

  // The client is no more; `why` it left.
  void leave(Client& c, Status why);
  // Tells writers that are closing how much of theirs is still unread: at first, and when it is nothing.
  void report_drained();

 private:
  Status declare(const wire::OpenProducer& letter);

  const StreamId& id_;
  const Clients& clients_;
  Log& log_;
  Jobs& jobs_;
  Readers& readers_;
  News& news_;
  std::uint64_t next_pool_ = 1;
};

}  // namespace lwmq::stream
