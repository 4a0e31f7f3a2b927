#include "filters/filters.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <new>
#include <string_view>

#include "filters/filtered.h"
#include "modules/find.h"

namespace lwmq::filters {
namespace {

constexpr std::string_view kNone = "filters";  // a chain that is empty at first

std::string known_names() {
  std::string names;
  for (std::uint32_t i = 0; modules::filter_at(i) != nullptr; ++i) {
    names += names.empty() ? "" : ", ";
    names += modules::filter_at(i)->name;
  }
  return names;
}

// `loss=0.01,seed=7`, `loss,every=9`: a name, and what stands behind it.
Status make(std::string_view text, const std::string& address, std::shared_ptr<NamedFilter>* out) {
  const std::size_t end = text.find_first_of("=,");
  const std::string_view name = text.substr(0, end);
  auto made = std::make_shared<NamedFilter>();
  made->address = address;
  made->filter = modules::find_filter(name);
  if (made->filter == nullptr) {
    return fail(LWMQ_E_INVALID, "there is no filter '%.*s'; there are: %s", static_cast<int>(name.size()),
                name.data(), known_names().c_str());
  }
  if (end != std::string_view::npos) made->settings = text.substr(end + 1);
  const Status status = made->filter->create(made->settings.c_str(), 0, nullptr);
  if (status != LWMQ_OK) {
    if (status == LWMQ_E_INVALID) add_context(made->filter->help);
    return status;
  }
  *out = std::move(made);
  return LWMQ_OK;
}

void copy_text(std::string_view from, char* to, std::size_t room) noexcept {
  const std::size_t bytes = std::min(from.size(), room - 1);
  std::memcpy(to, from.data(), bytes);
  std::memset(to + bytes, 0, room - bytes);
}

}  // namespace

// Steps of one below 64 ns; from there, 64 for each power of two.
void Times::add(std::uint64_t ns) noexcept {
  const unsigned power = ns < kSteps ? 0 : static_cast<unsigned>(std::bit_width(ns)) - 6;
  const std::uint64_t index = ns < kSteps ? ns : power * kSteps + ((ns >> (power - 1)) & (kSteps - 1));
  counts_[std::min<std::uint64_t>(index, kSteps * kPowers - 1)].fetch_add(1, std::memory_order_relaxed);
  count_.fetch_add(1, std::memory_order_relaxed);
}

std::uint64_t Times::within(double share) const noexcept {
  const std::uint64_t all = count();
  const auto wanted =
      std::max<std::uint64_t>(static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(all))), 1);
  std::uint64_t seen = 0;
  std::uint64_t last = 0;
  for (unsigned i = 0; i < kSteps * kPowers; ++i) {
    const std::uint64_t here = counts_[i].load(std::memory_order_relaxed);
    if (here == 0) continue;
    seen += here;
    const unsigned power = i / kSteps;
    last = power == 0 ? i : ((std::uint64_t{kSteps} + i % kSteps + 1) << (power - 1)) - 1;
    if (seen >= wanted) break;
  }
  return last;
}

void NamedFilter::add_time(std::uint64_t ns) noexcept {
  Measured* known = measured.load(std::memory_order_acquire);
  if (known == nullptr) {
    auto* made = new (std::nothrow) Measured;
    if (made == nullptr) return;
    const std::string name = settings.empty() ? filter->name : filter->name + ("=" + settings);
    made->entry = stats::open_entry(stats::EntryKind::kLatency, address.c_str(), name.c_str());
    if (measured.compare_exchange_strong(known, made, std::memory_order_acq_rel)) {
      known = made;
    } else {
      delete made;
    }
  }
  known->times.add(ns);
  stats::add_latency(*known->entry, ns);
}

void NamedFilter::retire() const noexcept {
  if (const Measured* known = measured.load(std::memory_order_acquire); known != nullptr)
    stats::set(known->entry->flags, stats::kEntryClosed);
}

Status Filters::parse(const char* address, std::shared_ptr<Filters>* out_filters) {
  auto made = std::make_shared<Filters>();
  made->address_ = address;
  std::string_view rest(address, static_cast<std::size_t>(modules::behind_filters(address) - address));
  while (!rest.empty()) {
    const std::size_t end = rest.find('+');  // there is one: each filter ends with it
    const std::string_view text = rest.substr(0, end);
    rest = rest.substr(end + 1);
    if (text == kNone) continue;
    std::shared_ptr<NamedFilter> filter;
    Status status = make(text, made->address_, &filter);
    if (status == LWMQ_OK && made->list_.size() == kFiltersMax)
      status = fail(LWMQ_E_ADDRESS, "more than %zu filters", kFiltersMax);
    if (status != LWMQ_OK) {
      add_context(address);
      return status == LWMQ_E_INVALID ? LWMQ_E_ADDRESS : status;
    }
    made->list_.push_back(std::move(filter));
  }
  *out_filters = std::move(made);
  return LWMQ_OK;
}

Status Filters::add(const char* text, std::uint32_t place) {
  std::shared_ptr<NamedFilter> filter;
  const Status status = make(text, address_, &filter);  // not under the lock: it may look at a file
  if (status != LWMQ_OK) return status;
  const std::lock_guard lock(mutex_);
  if (list_.size() == kFiltersMax)
    return fail(LWMQ_E_INVALID, "there are %zu filters already, which is as many as may be (%s)", kFiltersMax,
                address_.c_str());
  if (place == LWMQ_FILTER_LAST) place = static_cast<std::uint32_t>(list_.size());
  if (place > list_.size())
    return fail(LWMQ_E_INVALID, "place %u for a filter beside %zu; there are 0 to %zu (%s)", place,
                list_.size(), list_.size(), address_.c_str());
  list_.insert(list_.begin() + place, std::move(filter));
  version_.fetch_add(1, std::memory_order_release);
  return LWMQ_OK;
}

// With the mutex.
Status Filters::no_filter(std::uint32_t place) const noexcept {
  if (list_.empty()) return fail(LWMQ_E_INVALID, "there is no filter (%s)", address_.c_str());
  return fail(LWMQ_E_INVALID, "filter %u; there are 0 to %zu (%s)", place, list_.size() - 1,
              address_.c_str());
}

Status Filters::remove(std::uint32_t place) {
  const std::lock_guard lock(mutex_);
  if (place == LWMQ_FILTER_LAST && !list_.empty()) place = static_cast<std::uint32_t>(list_.size() - 1);
  if (place >= list_.size()) return no_filter(place);
  list_[place]->retire();
  list_.erase(list_.begin() + place);
  version_.fetch_add(1, std::memory_order_release);
  return LWMQ_OK;
}

Status Filters::query(std::uint32_t place, lwmq_filter_view* out_view) const {
  const std::lock_guard lock(mutex_);
  if (place >= list_.size()) return no_filter(place);
  const NamedFilter& filter = *list_[place];
  copy_text(filter.filter->name, out_view->name, sizeof out_view->name);
  copy_text(filter.settings, out_view->settings, sizeof out_view->settings);
  out_view->seen = filter.seen.load(std::memory_order_relaxed);
  out_view->dropped = filter.dropped.load(std::memory_order_relaxed);
  out_view->changed = filter.changed.load(std::memory_order_relaxed);
  out_view->sourced = filter.sourced.load(std::memory_order_relaxed);
  out_view->held = filter.held.load(std::memory_order_relaxed);
  const NamedFilter::Measured* measured = filter.measured.load(std::memory_order_acquire);
  out_view->timed = measured == nullptr ? 0 : measured->times.count();
  out_view->failed = filter.failed.load(std::memory_order_relaxed);
  return LWMQ_OK;
}

std::uint64_t Filters::dropped() const noexcept {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& filter : list_) sum += filter->dropped.load(std::memory_order_relaxed);
  return sum;
}

Status Filters::query_times(std::uint32_t place, double share, std::uint64_t* out_ns) const {
  const std::lock_guard lock(mutex_);
  if (place >= list_.size()) return no_filter(place);
  if (!(share >= 0 && share <= 1))
    return fail(LWMQ_E_INVALID, "a share of %g; 0 to 1 is possible (%s)", share, address_.c_str());
  const NamedFilter::Measured* measured = list_[place]->measured.load(std::memory_order_acquire);
  if (measured == nullptr || measured->times.count() == 0) return LWMQ_E_EMPTY;
  *out_ns = measured->times.within(share);
  return LWMQ_OK;
}

Filters::List Filters::list(std::uint64_t* out_version) const {
  const std::lock_guard lock(mutex_);
  *out_version = version_.load(std::memory_order_relaxed);
  return list_;
}

}  // namespace lwmq::filters
