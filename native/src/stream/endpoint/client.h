// What the endpoint remembers of one client: the link to it, and what the client has said it is.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "os/identity.h"
#include "stream/endpoint/pool.h"
#include "stream/link.h"
#include "stream/log/log.h"

namespace lwmq::stream {

struct Job;

// From OpenWriter to CloseWriter.
struct WriterSession {
  std::shared_ptr<Producer> producer;
  std::string job;  // empty: a producer by itself
  std::uint32_t task = 0;
  std::uint64_t attempt = 0, epoch = 0;
  std::uint32_t delivery = 0;
  std::vector<StagedEntry> staged;                        // published and not yet committed
  std::map<std::uint32_t, wire::CommittedField> written;  // of a task, by partition: sums
  bool closing = false;                                   // waits to hear that all was consumed
  bool told_unconsumed = false;                           // was told once how much is not
};

struct ReaderRange {
  std::uint32_t partition = 0;
  std::uint64_t cursor = 0;  // the next number to hand out
  std::uint64_t end = 0;     // LWMQ_SEQ_END: the stream's end
};

struct ReaderSession {
  wire::OpenReader options;
  std::uint32_t name = 0;  // its number
  bool declared = false;   // was told the schema; its ranges are resolved
  bool done = false;       // was told End, Failed or Expelled
  bool failed = false;     // was told Failed, and that was the last
  bool behind = false;     // has not looked for the windows that it was shown: nothing more goes to it now
  bool stalled = false;    // keeps a writer waiting for long
  bool expelled = false;
  bool abandoned = false;  // it leaves by an error of its own
  bool handed_any = false;
  bool joined_before_end = false;
  std::int64_t moved_ns = 0;  // when it took a batch, or had something to take again
  std::size_t aborts_seen = 0;
  std::vector<ReaderRange> ranges;
  // Partition and number; not yet moved past, in order.
  std::deque<std::pair<std::uint32_t, std::uint64_t>> handed;
  struct ShownPool {
    std::weak_ptr<Pool> pool;
    std::size_t windows = 0;  // so many of its windows were shown
    bool has_page = false;    // the reader has made its lease page

    // Nothing of it will be shown any more, and nothing is expected of the reader.
    [[nodiscard]] bool is_over() const noexcept { return has_page && pool.expired(); }
  };
  std::map<std::uint64_t, ShownPool> pools;  // by number
  // Slots that it may still look at.
  std::vector<std::pair<std::shared_ptr<Pool>, std::uint32_t>> quarantined;
  // What it has moved past, by producer: kept of a reader without a name under which another one goes on.
  struct Taken {
    std::shared_ptr<Producer> producer;
    std::uint64_t batches = 0, rows = 0;
  };
  std::vector<Taken> taken;
};

struct Client {
  Client(const lwmq_tli_provider* provider, lwmq_tli_transport* transport)
      : link(provider, transport), peer(link.peer()) {}

  Link link;
  const lwmq_tli_peer peer;
  std::string process;         // of a writer, a reader or a job's driver: named while it lives
  std::shared_ptr<Pool> pool;  // of a client that has written
  std::unique_ptr<WriterSession> writer;
  std::shared_ptr<Job> job;  // of its driver
  std::unique_ptr<ReaderSession> reader;
  bool wants_description = false;
  bool over = false;
};

using Clients = std::vector<std::unique_ptr<Client>>;

// A stream, as the endpoint's texts and letters name it.
struct StreamId {
  std::string address;
  std::string generation;  // 16 random bytes
};

// What else this process is to the stream.
inline wire::Server served_by(const Clients& clients) {
  auto found = wire::Server::kEndpoint;
  for (const auto& c : clients) {
    if (c->over || std::memcmp(c->peer.instance, os::identity().instance, sizeof c->peer.instance) != 0)
      continue;
    if (c->writer) return wire::Server::kWriter;
    if (c->reader) found = wire::Server::kReader;
  }
  return found;
}

inline wire::Opened opened(const StreamId& id, const Clients& clients, const Log& log) {
  wire::Opened letter;
  letter.partitions = log.size();
  letter.retain = log.retain();
  letter.server = static_cast<std::uint32_t>(served_by(clients));
  letter.generation = id.generation;
  letter.schema = log.schema();
  return letter;
}

// Says no to an opening. The conversation may go on with something else.
inline Status refuse(Client& client, const StreamId& id, Status status, const std::string& text) {
  wire::Opened letter;
  letter.status = status;
  letter.text = id.address + ": " + text;
  return client.link.send_letter(wire::StreamKind::kOpened, letter);
}

// Tells a client why the endpoint ends its conversation, where the client cannot know.
inline void tell_failure(Client& client, const std::string& address, Status why) {
  if (!is_failure(why) || why == LWMQ_E_CLOSED || why == LWMQ_E_PEER_LOST) return;
  wire::Text letter;
  letter.status = why;
  letter.text =
      (address + ": the endpoint ended this conversation: " + last_error()).substr(0, kReasonBytesMax);
  client.link.send_letter(wire::StreamKind::kFailed, letter);  // as far as it goes: the link closes behind it
}

inline Status unexpected(wire::StreamKind kind, const std::string& bytes) noexcept {
  return fail(LWMQ_E_CORRUPT, "message of kind %u and %zu bytes is not one that a client sends",
              static_cast<unsigned>(kind), bytes.size());
}

}  // namespace lwmq::stream
