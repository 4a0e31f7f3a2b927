// The readers of a stream: what each is handed, when it has moved past, and what may leave the log.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "stream/endpoint/client.h"
#include "stream/endpoint/jobs.h"
#include "stream/log/log.h"

namespace lwmq::stream {

class Readers {
 public:
  Readers(const StreamId* id, const Clients* clients, Log* log, Jobs* jobs, News* news) noexcept
      : id_(*id), clients_(*clients), log_(*log), jobs_(*jobs), news_(*news) {}

  // Messages of clients. A failure ends the conversation.
  Status open(Client& c, const std::string& bytes);
  Status lease(Client& c, const std::string& bytes);
  Status consumed(Client& c, const std::string& bytes);
  Status settle(Client& c, const std::string& bytes);

  // The stream has just been declared.
  void declare_to_all();
  // Hands out, in order of arrival over a reader's partitions, what its credit allows.
  void advance_all();
  void advance(Client& c);
  // The reader is no more; `why` it left.
  void leave(Client& c, Status why);
  // An expelled reader has heard, or is gone: what it leases stands on its pages.
  static void end_quarantine(ReaderSession& reader);

  // Gives up batches of the pool that were consumed and are only kept for an attempt that might come again,
  // oldest first, until there is as much as its writer asks for.
  void make_room(const Pool& pool);
  // Releases everything that nobody needs any more.
  void sweep();
  // Counts anew how many readers hold different batches of each pool.
  void count_sharers();

  [[nodiscard]] std::uint32_t open_count() const noexcept;
  // Readers that ended before they had read everything, without an orderly close.
  [[nodiscard]] std::uint64_t lost_count() const noexcept { return lost_; }
  // It has had everything, and waits for the next producer: nobody has to wait for it.
  [[nodiscard]] bool is_late(const ReaderSession& reader) const;

 private:
  void declare_to(Client& c);
  bool hand_out(Client& c, std::uint32_t partition, std::uint64_t seq, Entry& entry);
  void finish_if_done(Client& c);
  void fail_reader(Client& c, Status status, const std::string& text);
  void fail_for_released(Client& c, const std::string& text);
  void tell_of_lost(const Client& c, bool died);
  std::string forsake(ReaderSession& reader, const std::string& who);
  [[nodiscard]] std::uint32_t sharers_of(std::uint64_t pool) const;
  [[nodiscard]] bool is_needed(std::uint32_t partition, std::uint64_t seq) const;
  [[nodiscard]] bool is_free(std::uint32_t partition, std::uint64_t seq, const Entry& entry) const;
  void remove(std::uint32_t partition, std::uint64_t seq, bool evicted);

  const StreamId& id_;
  const Clients& clients_;
  Log& log_;
  Jobs& jobs_;
  News& news_;
  std::uint64_t lost_ = 0;
  std::map<std::string, std::uint32_t> names_;
  // By name: consumed, and not yet acknowledged or forgotten.
  std::map<std::uint32_t, std::vector<std::pair<std::uint32_t, std::uint64_t>>> unsettled_;
};

}  // namespace lwmq::stream
