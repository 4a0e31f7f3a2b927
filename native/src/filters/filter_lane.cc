#include "filters/filter_lane.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace lwmq::filters {
namespace {

void count(std::atomic<std::uint64_t>& counter) noexcept { counter.fetch_add(1, std::memory_order_relaxed); }

void note(NamedFilter& entry, const lwmq_tli_verdict& verdict) noexcept {
  count(entry.seen);
  if (verdict.drop != 0) count(entry.dropped);
  if (verdict.changed != 0) count(entry.changed);
  if (verdict.failed != 0) count(entry.failed);
  if (verdict.took_ns != 0) entry.add_time(verdict.took_ns);
}

// Saturates: a filter may ask for any time.
std::int64_t later(std::int64_t now_ns, std::uint64_t more_ns) noexcept {
  const auto room = static_cast<std::uint64_t>(kNeverDue - now_ns);
  return more_ns >= room ? kNeverDue : now_ns + static_cast<std::int64_t>(more_ns);
}

}  // namespace

void FilterLane::clear() noexcept {
  for (const auto& stage : stages_) {
    for (const Held& held : stage->queue) below_.give_back(held.extent.landing, 1);
    for (const Held& held : stage->late) below_.give_back(held.extent.landing, 1);
    note_held(*stage, -stage->held());
    stage->queue.clear();
    stage->late.clear();
    stage->has_more = false;
  }
  const auto empty = [this](Queue& queue) {
    for (const auto& extent : queue) below_.give_back(extent.landing, 1);
    queue.clear();
  };
  for (Queue& input : inputs_) empty(input);
  empty(input_);
  empty(output_);
}

Status FilterLane::refresh() {
  if (filters_->version() == version_) [[likely]]
    return LWMQ_OK;
  Filters::List list = filters_->list(&version_);
  if (way_ == LWMQ_TLI_LANDING) std::reverse(list.begin(), list.end());

  // What a filter held that is gone goes on to the next one that stays.
  std::vector<std::unique_ptr<Stage>> before = std::move(stages_);
  stages_.clear();
  Queue carried;
  std::vector<std::pair<Stage*, Queue>> carried_to;
  for (const auto& stage : before) {
    if (std::find(list.begin(), list.end(), stage->entry) != list.end()) {
      if (!carried.empty()) carried_to.emplace_back(stage.get(), std::exchange(carried, {}));
      continue;
    }
    note_held(*stage, -stage->held());
    Queue older;  // than what comes from nearer to the wire
    for (const Held& held : stage->queue) older.push_back(held.extent);
    for (const Held& held : stage->late) older.push_back(held.extent);
    carried.insert(carried.begin(), older.begin(), older.end());
  }
  output_.insert(output_.end(), carried.begin(), carried.end());

  Status first = LWMQ_OK;
  for (auto& entry : list) {
    const auto kept = std::find_if(before.begin(), before.end(),
                                   [&](const auto& stage) { return stage && stage->entry == entry; });
    if (kept != before.end()) {
      stages_.push_back(std::move(*kept));
      continue;
    }
    if ((entry->filter->ways & way_) == 0) continue;
    void* instance = nullptr;
    const Status status = entry->filter->create(entry->settings.c_str(), way_, &instance);
    if (status != LWMQ_OK) {
      count(entry->failed);
      if (first == LWMQ_OK) first = status;
    }
    if (status != LWMQ_OK || instance == nullptr) continue;  // it may have nothing to do on this way
    stages_.push_back(std::make_unique<Stage>(entry));
    stages_.back()->instance = instance;
    if (entry->filter->source != nullptr && way_ == LWMQ_TLI_LANDING) {
      stages_.back()->has_more = true;
      note_held(*stages_.back(), 1);
    }
  }
  inputs_.assign(stages_.size(), {});
  for (auto& [stage, extents] : carried_to) {
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      if (stages_[i].get() == stage) inputs_[i] = std::move(extents);
    }
  }
  return first;
}

void FilterLane::note_held(Stage& stage, int more) noexcept {
  held_ += static_cast<std::size_t>(more);
  stage.entry->held.fetch_add(static_cast<std::uint64_t>(more), std::memory_order_relaxed);
}

// ---- Sending ----------------------------------------------------------------------------------------

bool FilterLane::pass(lwmq_tli_passing* passing) noexcept {
  for (const auto& stage : stages_) {
    NamedFilter& entry = *stage->entry;
    lwmq_tli_passing shown = *passing;
    lwmq_tli_verdict verdict{};
    entry.filter->see(stage->instance, &shown, &verdict);
    note(entry, verdict);
    const auto now_ns = static_cast<std::int64_t>(passing->now_ns);
    stage->blocked_until_ns = std::max(stage->blocked_until_ns, later(now_ns, verdict.hold_ns));
    if (verdict.drop != 0) return false;
    if (verdict.changed == 0) continue;
    passing->bytes =
        std::min(shown.bytes, (entry.filter->rewrites & way_) != 0 ? passing->room : passing->bytes);
    passing->kind = std::min<std::uint32_t>(shown.kind, LWMQ_TLI_KIND_MAX);
  }
  return true;
}

std::int64_t FilterLane::blocked_until_ns() const noexcept {
  std::int64_t until = 0;
  for (const auto& stage : stages_) until = std::max(until, stage->blocked_until_ns);
  return until;
}

// ---- Landing ----------------------------------------------------------------------------------------

void FilterLane::leave(Stage& stage, const Extent& extent, Queue& next) {
  next.push_back(extent);
  for (std::size_t i = 0; i < stage.late.size();) {
    if (--stage.late[i].behind > 0) {
      ++i;
      continue;
    }
    next.push_back(stage.late[i].extent);
    stage.late.erase(stage.late.begin() + static_cast<std::ptrdiff_t>(i));
    note_held(stage, -1);
  }
}

void FilterLane::see(Stage& stage, Extent extent, std::int64_t now_ns, Queue& next) {
  NamedFilter& entry = *stage.entry;
  if ((entry.filter->rewrites & way_) != 0 && !below_.is_own(extent) && !below_.make_own(&extent, true)) {
    count(entry.failed);  // no memory: it stays as it is
    return keep_or_pass(stage, extent, 0, now_ns, next);
  }
  lwmq_tli_passing passing{const_cast<std::uint8_t*>(extent.seen.data), extent.seen.bytes, 0,
                           static_cast<std::uint64_t>(now_ns),          extent.seen.kind,  way_};
  lwmq_tli_verdict verdict{};
  entry.filter->see(stage.instance, &passing, &verdict);
  note(entry, verdict);
  if (verdict.changed != 0) {
    extent.seen.bytes = std::min(passing.bytes, extent.seen.bytes);
    extent.seen.kind = std::min<std::uint32_t>(passing.kind, LWMQ_TLI_KIND_MAX);
  }
  if (verdict.drop != 0) {
    below_.give_back(extent.landing, 1);
  } else if (verdict.behind > 0 && !ended_) {
    stage.late.push_back({extent, later(now_ns, verdict.hold_ns), verdict.behind});
    note_held(stage, 1);
  } else {
    keep_or_pass(stage, extent, ended_ ? 0 : verdict.hold_ns, now_ns, next);
  }
}

// Behind what the stage holds, in order.
void FilterLane::keep_or_pass(Stage& stage, const Extent& extent, std::uint64_t hold_ns, std::int64_t now_ns,
                              Queue& next) {
  if (hold_ns == 0 && stage.queue.empty()) return leave(stage, extent, next);
  const std::int64_t last = stage.queue.empty() ? 0 : stage.queue.back().due_ns;
  stage.queue.push_back({extent, std::max(last, later(now_ns, hold_ns)), 0});
  note_held(stage, 1);
}

// One at a time, and none where much is held, so that what waits is a file's and not our memory's.
void FilterLane::take_sourced(Stage& stage, std::int64_t now_ns, Queue& next) {
  if (!stage.has_more || stage.source_due_ns > now_ns) return;
  while (next.empty() && output_.empty() && !is_full()) {
    lwmq_tli_passing passing{};
    passing.now_ns = static_cast<std::uint64_t>(now_ns);
    std::uint64_t in_ns = UINT64_MAX;
    const bool may_go_on = !ended_ || sourced_since_++ < kSourcedAtEndMax;
    if (!may_go_on || stage.entry->filter->source(stage.instance, &passing, &in_ns) == 0) {
      stage.source_due_ns = later(now_ns, in_ns);
      if (in_ns == UINT64_MAX) {
        stage.has_more = false;
        note_held(stage, -1);
      }
      return;
    }
    Extent extent;
    extent.seen.data = passing.data;
    extent.seen.bytes = passing.bytes;
    extent.seen.kind = std::min<std::uint32_t>(passing.kind, LWMQ_TLI_KIND_MAX);
    if (!below_.make_own(&extent, false)) return count(stage.entry->failed);
    count(stage.entry->sourced);
    next.push_back(extent);
  }
}

void FilterLane::take_due(Stage& stage, std::int64_t now_ns, Queue& next) {
  while (!stage.queue.empty() && stage.queue.front().due_ns <= now_ns) {
    const Extent extent = stage.queue.front().extent;
    stage.queue.pop_front();
    note_held(stage, -1);
    leave(stage, extent, next);
  }
  for (std::size_t i = 0; i < stage.late.size();) {
    if (stage.late[i].due_ns > now_ns) {
      ++i;
      continue;
    }
    next.push_back(stage.late[i].extent);
    stage.late.erase(stage.late.begin() + static_cast<std::ptrdiff_t>(i));
    note_held(stage, -1);
  }
}

void FilterLane::run(std::int64_t now_ns) {
  Queue& first = inputs_.empty() ? output_ : inputs_.front();
  first.insert(first.end(), input_.begin(), input_.end());
  input_.clear();
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    Stage& stage = *stages_[i];
    Queue& next = next_of(i);
    take_due(stage, now_ns, next);
    take_sourced(stage, now_ns, next);
    for (; !inputs_[i].empty(); inputs_[i].pop_front()) see(stage, inputs_[i].front(), now_ns, next);
  }
}

void FilterLane::flush(std::int64_t now_ns) {
  ended_ = true;
  run(now_ns);
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    for (; !inputs_[i].empty(); inputs_[i].pop_front())
      see(*stages_[i], inputs_[i].front(), now_ns, next_of(i));
    take_due(*stages_[i], kNeverDue, next_of(i));
  }
}

Extent FilterLane::take() noexcept {
  const Extent extent = output_.front();
  output_.pop_front();
  return extent;
}

bool FilterLane::holds() const noexcept {
  return std::any_of(stages_.begin(), stages_.end(),
                     [](const auto& stage) { return !stage->queue.empty() || !stage->late.empty(); });
}

std::int64_t FilterLane::next_due_ns() const noexcept {
  std::int64_t due = kNeverDue;
  for (const auto& stage : stages_) {
    if (stage->has_more && !is_full()) due = std::min(due, stage->source_due_ns);
    if (!stage->queue.empty()) due = std::min(due, stage->queue.front().due_ns);
    for (const Held& held : stage->late) due = std::min(due, held.due_ns);
  }
  return due;
}

}  // namespace lwmq::filters
