#include "stream/log.h"

#include <algorithm>
#include <utility>

namespace lwmq::stream {

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

bool Entry::forget(std::uint32_t name) {
  return std::erase_if(consumed_by, [name](const Reader& reader) { return reader.name == name; }) > 0;
}

void Entry::acknowledge(std::uint32_t name) noexcept {
  const auto found = std::ranges::find(consumed_by, name, &Reader::name);
  if (found != consumed_by.end()) found->acknowledged = true;
}

std::uint64_t PartitionLog::append(Entry entry) {
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

std::uint64_t PartitionLog::lowest_unacked(std::optional<std::uint32_t> name,
                                           std::uint32_t acks_needed) const noexcept {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (entry.gone || entry.acknowledged() >= acks_needed) continue;
    if (name && entry.is_acknowledged_by(*name)) continue;
    return first_ + i;
  }
  return next_seq();
}

void PartitionLog::remove(std::uint64_t seq, bool evicted) {
  Entry* entry = find(seq);
  if (entry == nullptr) return;
  entry->gone = true;
  entry->evicted = evicted;
  entry->pool.reset();
  entry->producer.reset();
  while (!entries_.empty() && entries_.front().gone) {
    entries_.pop_front();
    ++first_;
  }
}

}  // namespace lwmq::stream
