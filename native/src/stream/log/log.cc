#include "stream/log/log.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace lwmq::stream {
namespace {

std::atomic<std::uint64_t> walked{0};

}  // namespace

std::uint64_t entries_walked() noexcept { return walked.load(std::memory_order_relaxed); }

std::size_t Entry::acknowledged() const noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(consumed_by, &Reader::acknowledged));
}

bool Entry::is_acknowledged_by(std::uint32_t name) const noexcept {
  const auto found = std::ranges::find(consumed_by, name, &Reader::name);
  return found != consumed_by.end() && found->acknowledged;
}

bool Entry::note_consumed(std::uint32_t name) {
  if (std::ranges::find(consumed_by, name, &Reader::name) != consumed_by.end()) return false;
  consumed_by.push_back({name, false});
  return true;
}

void Entry::acknowledge(std::uint32_t name) noexcept {
  const auto found = std::ranges::find(consumed_by, name, &Reader::name);
  if (found != consumed_by.end()) found->acknowledged = true;
}

bool Entry::forget(std::uint32_t name) {
  return std::erase_if(consumed_by, [name](const Reader& reader) { return reader.name == name; }) > 0;
}

// ---- A partition ------------------------------------------------------------------------------------

void PartitionLog::count_walk(std::uint64_t entries) noexcept {
  walked.fetch_add(entries, std::memory_order_relaxed);
}

std::uint64_t PartitionLog::append(Entry entry) {
  unacked_rows_ += entry.rows;
  unacked_bytes_ += entry.bytes;
  entries_.push_back(std::move(entry));
  return next_seq() - 1;
}

Entry* PartitionLog::find(std::uint64_t seq) noexcept {
  if (seq < first_ || seq >= next_seq()) return nullptr;
  Entry& entry = entries_[seq - first_];
  return entry.gone ? nullptr : &entry;
}

std::uint64_t PartitionLog::next_present(std::uint64_t seq) const noexcept {
  seq = std::max(seq, first_);
  while (seq < next_seq() && entries_[seq - first_].gone) ++seq;
  return seq;
}

bool PartitionLog::lost_between(std::uint64_t from, std::uint64_t to) const noexcept {
  if (from < first_ && from < to) return true;
  for (std::uint64_t seq = from; seq < std::min(to, next_seq()); ++seq) {
    if (entries_[seq - first_].evicted) return true;
  }
  return false;
}

void PartitionLog::set_acks_needed(std::uint32_t acks_needed) noexcept {
  acks_needed_ = acks_needed;
  pass_acknowledged();
}

void PartitionLog::acknowledge(std::uint64_t seq, std::uint32_t name) noexcept {
  Entry* entry = find(seq);
  if (entry == nullptr) return;
  entry->acknowledge(name);
  if (seq == unacked_) pass_acknowledged();
}

void PartitionLog::note_forgotten(std::uint64_t seq) noexcept {
  if (seq >= unacked_ || entries_[seq - first_].acknowledged() >= acks_needed_) return;
  for (std::uint64_t i = seq; i < unacked_; ++i) {
    const Entry& entry = entries_[i - first_];
    if (!entry.gone) unacked_rows_ += entry.rows, unacked_bytes_ += entry.bytes;
  }
  unacked_ = seq;
}

// Passes each entry once, unless a reader that had acknowledged it is lost.
void PartitionLog::pass_acknowledged() noexcept {
  unacked_ = std::max(unacked_, first_);
  for (; unacked_ < next_seq(); ++unacked_) {
    const Entry& entry = entries_[unacked_ - first_];
    if (entry.gone) continue;
    if (entry.acknowledged() < acks_needed_) return;
    unacked_rows_ -= entry.rows;
    unacked_bytes_ -= entry.bytes;
  }
}

std::uint64_t PartitionLog::unacked_seq_of(std::uint32_t name) const noexcept {
  std::uint64_t seq = unacked_;
  for (; seq < next_seq(); ++seq) {
    const Entry& entry = entries_[seq - first_];
    if (!entry.gone && entry.acknowledged() < acks_needed_ && !entry.is_acknowledged_by(name)) break;
  }
  count_walk(seq - unacked_);
  return seq;
}

Body PartitionLog::remove(std::uint64_t seq, bool evicted) {
  Entry& entry = entries_[seq - first_];
  if (seq >= unacked_) unacked_rows_ -= entry.rows, unacked_bytes_ -= entry.bytes;
  entry.gone = true;
  entry.evicted = evicted;
  entry.producer.reset();
  Body body = std::move(entry.body);
  while (!entries_.empty() && entries_.front().gone) {
    entries_.pop_front();
    ++first_;
  }
  if (seq == unacked_) pass_acknowledged();
  return body;
}

// ---- The stream -------------------------------------------------------------------------------------

void Log::declare(std::string schema, std::uint32_t partitions, std::uint32_t retain, std::uint32_t readers) {
  schema_ = std::move(schema);
  retain_ = retain;
  readers_needed_ = readers;
  partitions_.resize(partitions);
  for (auto& partition : partitions_)
    partition.set_acks_needed(retain == LWMQ_RETAIN_ALL ? UINT32_MAX : readers);
}

std::uint64_t Log::append(std::uint32_t partition, Entry entry) {
  entry.arrival = figures_.arrived++;
  ++entry.producer->visible, ++entry.producer->unconsumed;
  ++figures_.unread_batches, ++figures_.awaited_batches, ++figures_.kept_batches;
  figures_.kept_bytes += entry.bytes;
  figures_.rows += entry.rows, figures_.bytes += entry.bytes;
  news_->for_readers = true;
  return partitions_[partition].append(std::move(entry));
}

void Log::note_consumed(Entry& entry, std::uint32_t name) {
  if (!entry.note_consumed(name)) return;
  if (entry.consumed() == 1) --figures_.unread_batches;
  if (entry.consumed() == readers_needed_) stop_awaiting(entry);
}

bool Log::forget(std::uint32_t partition, std::uint64_t seq, std::uint32_t name) {
  Entry& entry = *partitions_[partition].find(seq);
  if (!entry.forget(name)) return false;
  if (entry.consumed() == 0) ++figures_.unread_batches;
  if (entry.consumed() + 1 == readers_needed_) ++figures_.awaited_batches, ++entry.producer->unconsumed;
  partitions_[partition].note_forgotten(seq);
  return true;
}

// As many readers as the stream asks for have moved past the entry, or no further one will.
void Log::stop_awaiting(const Entry& entry) noexcept {
  --figures_.awaited_batches;
  if (--entry.producer->unconsumed == 0) news_->for_writers = true;
}

void Log::need_one_reader_less() {
  if (readers_needed_ <= 1) return;
  --readers_needed_;
  for (auto& partition : partitions_) {
    if (retain_ != LWMQ_RETAIN_ALL) partition.set_acks_needed(readers_needed_);
    partition.for_each([&](std::uint64_t, const Entry& entry) {
      if (entry.consumed() == readers_needed_) stop_awaiting(entry);
      return true;
    });
  }
}

bool Log::is_satisfied(const Entry& entry) const noexcept {
  switch (retain_) {
    case LWMQ_RETAIN_UNTIL_ACKED:
      return entry.acknowledged() >= readers_needed_;
    case LWMQ_RETAIN_NONE:
      return entry.consumed() >= readers_needed_;
    default:
      return false;
  }
}

Body Log::remove(std::uint32_t partition, std::uint64_t seq, bool evicted) {
  const Entry& entry = *partitions_[partition].find(seq);
  if (entry.consumed() < readers_needed_) stop_awaiting(entry);
  if (entry.consumed() == 0) --figures_.unread_batches;
  --figures_.kept_batches;
  figures_.kept_bytes -= entry.bytes;
  return partitions_[partition].remove(seq, evicted);
}

}  // namespace lwmq::stream
