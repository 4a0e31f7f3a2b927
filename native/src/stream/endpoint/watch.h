// The endpoint's patience with readers: which of them keep a writer waiting, since when, and what becomes of
// them.
//
// A reader that is stopped and one that computes look alike from here: neither takes anything. So no reader
// is asked. What counts is that a writer waits, for room or to be read to its end, and that the reader stands
// in its way.
//
// An expelled reader may be alive. Three sorts of blocks are its own until it has heard, or died:
//
//   handed over, not consumed   it may lease them without asking: they are in quarantine (pool.h), dropped
//                               from the log and not from the ledger
//   leased                      stand on its lease pages, where the writer looks
//   never handed over           not its own: they are dropped as for everybody
//
// Its answer to Expelled ends the quarantine: what it leases was on its pages before.
#pragma once

#include <cstdint>

#include "stream/endpoint/client.h"
#include "stream/endpoint/readers.h"
#include "stream/log/log.h"

namespace lwmq::stream {

class Watch {
 public:
  Watch(const StreamId* id, const Clients* clients, Log* log, Readers* readers, News* news) noexcept
      : id_(*id), clients_(*clients), log_(*log), readers_(*readers), news_(*news) {}

  // A writer may have begun to wait.
  void note_waits() noexcept;
  // A reader has moved, or has something to take again: another one may be in the way of a writer now.
  void note_moved() noexcept;
  // When to look again; 0: not before something happens.
  [[nodiscard]] std::int64_t at_ns() const noexcept { return at_ns_; }
  // Looks whose time has come.
  void look();

  [[nodiscard]] std::uint64_t expelled_count() const noexcept { return expelled_; }

 private:
  void look_soon(std::int64_t now_ns) noexcept;
  void look_at(std::int64_t at_ns) noexcept;
  bool look_at_readers_of(Client& writer, std::int64_t now_ns);
  [[nodiscard]] std::uint64_t oldest_awaiting(const ReaderSession& reader, const Pool& pool);
  void expel(Client& c, Client& writer, std::int64_t silent_ns);
  void forgo_acknowledgement();

  const StreamId& id_;
  const Clients& clients_;
  Log& log_;
  Readers& readers_;
  News& news_;
  bool writers_wait_ = false;  // some of them may
  std::int64_t at_ns_ = 0;
  std::uint64_t expelled_ = 0;
};

}  // namespace lwmq::stream
