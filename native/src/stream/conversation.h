// What the endpoint remembers of one client: the link, and what the client has said it is.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "stream/endpoint.h"

namespace lwmq::stream {

// A writer's session on its pool: from OpenWriter to CloseWriter.
struct WriterSession {
  std::shared_ptr<Producer> producer;
  std::string job;  // empty: a producer by itself
  std::uint32_t task = 0;
  std::uint64_t attempt = 0, epoch = 0;
  std::uint32_t delivery = 0;
  std::vector<Entry> staged;                   // published and not yet committed
  wire::TaskResult result{};                   // what it has shown so far
  bool closing = false;                        // wants to know when all was consumed
  std::uint64_t reported = ~std::uint64_t{0};  // the count that it was told last
};

struct JobSession {
  std::string id;
  std::shared_ptr<Job> job;
};

struct ReaderRange {
  std::uint32_t partition = 0;
  std::uint64_t cursor = 0;  // the next to hand out
  std::uint64_t end = 0;     // LWMQ_SEQ_END: the stream's end
};

struct ReaderSession {
  wire::OpenReader options;
  std::uint32_t name = 0;
  bool declared = false;  // was told the schema; its ranges are resolved
  bool done = false;      // was told End, Failed or Expelled
  bool failed = false;    // was told Failed, and that was the last
  bool behind = false;    // has not looked for the windows that it was shown: nothing more goes to it now
  bool stalled = false;   // keeps a writer waiting for long
  bool expelled = false;
  std::int64_t moved_ns = 0;  // when it took a batch, or had something to take again
  std::vector<std::pair<std::shared_ptr<Pool>, std::uint32_t>>
      quarantined;         // slots that it may still look at
  bool abandoned = false;  // it leaves by an error of its own
  // What it has moved past, by producer: kept by a reader that has no name under which another one goes on.
  struct Taken {
    std::shared_ptr<Producer> producer;
    std::uint64_t batches = 0, rows = 0;
  };
  std::vector<Taken> taken;
  bool handed_any = false;
  bool joined_before_end = false;
  std::size_t aborts_seen = 0;
  std::vector<ReaderRange> ranges;
  std::deque<std::pair<std::uint32_t, std::uint64_t>> handed;  // not yet moved past, in order
  std::map<std::uint64_t, std::size_t> windows_told;           // pool -> how many of its windows
  std::set<std::uint64_t> pools_leased;                        // pools that it has made a page of leases for
};

struct Conversation {
  Conversation(const lwmq_tli_provider* provider, lwmq_tli_transport* transport)
      : link(provider, transport) {}

  Link link;
  lwmq_tli_peer peer{};
  std::string who;             // of a writer, a reader or a job's driver: its process, named while it lives
  std::shared_ptr<Pool> pool;  // of a client that has written
  std::unique_ptr<WriterSession> writer;
  std::unique_ptr<JobSession> job;
  std::unique_ptr<ReaderSession> reader;
  bool wants_description = false;
  bool over = false;
};

}  // namespace lwmq::stream
