// Things that a process keeps for a while after their use, because the next use is likely to be soon and
// making them anew costs more: memory that is mapped and warm.
#pragma once

#include <cstdint>
#include <iterator>
#include <list>
#include <mutex>
#include <optional>
#include <utility>

#include "os/clock.h"
#include "service/service_thread.h"

namespace lwmq::stream {

// What was used last lies in front. The attending service thread clears away what nobody has come for, so
// that an idle process gives its memory back; an empty cache wakes nobody. Item: movable, with `bool
// is_of_use() const` and `std::uint64_t size() const`. Any thread.
template <typename Item>
class IdleCache final : public service::Served {
 public:
  // Keeps an item for `keep_ns`, and items of at most `room()` together.
  IdleCache(std::int64_t keep_ns, std::uint64_t (*room)() noexcept) noexcept
      : keep_ns_(keep_ns), room_(room) {}

  // Takes the smallest item for which `wanted` is true; of several the one that was used last.
  template <typename Wanted>
  std::optional<Item> take(Wanted&& wanted) {
    Places gone;  // destroyed after the lock is given back
    const std::lock_guard lock(mutex_);
    take_old(os::now_ns(), &gone);
    auto found = places_.end();
    for (auto at = places_.begin(); at != places_.end(); ++at) {
      if (!wanted(at->item)) continue;
      if (found == places_.end() || at->item.size() < found->item.size()) found = at;
    }
    if (found == places_.end()) return std::nullopt;
    std::optional<Item> taken(std::move(found->item));
    size_ -= taken->size();
    places_.erase(found);
    return taken;
  }

  void put(Item item) {
    Places gone;
    {
      const std::lock_guard lock(mutex_);
      size_ += item.size();
      places_.push_front({std::move(item), os::now_ns()});
      while (size_ > room_()) remove(std::prev(places_.end()), &gone);
      if (!served_) served_ = service::ServiceThread::attending().add(this) == LWMQ_OK;
      if (!served_) return;  // then items go when the next one is looked for
    }
    service::ServiceThread::attending().request(this);
  }

  // Empties the cache. False when it was empty.
  bool clear() {
    Places gone;
    const std::lock_guard lock(mutex_);
    gone.swap(places_);
    size_ = 0;
    return !gone.empty();
  }

  std::int64_t serve(std::int64_t now_ns, bool /*alone*/) noexcept override {
    Places gone;
    const std::lock_guard lock(mutex_);
    take_old(now_ns, &gone);
    return places_.empty() ? service::kNever : places_.back().since_ns + keep_ns_ + 1;
  }

 private:
  struct Place {
    Item item;
    std::int64_t since_ns = 0;
  };
  using Places = std::list<Place>;

  void remove(typename Places::iterator at, Places* out_gone) {
    size_ -= at->item.size();
    out_gone->splice(out_gone->end(), places_, at);
  }

  void take_old(std::int64_t now_ns, Places* out_gone) {
    for (auto at = places_.begin(); at != places_.end();) {
      const auto here = at++;
      if (!here->item.is_of_use() || now_ns - here->since_ns > keep_ns_) remove(here, out_gone);
    }
  }

  const std::int64_t keep_ns_;
  std::uint64_t (*const room_)() noexcept;
  std::mutex mutex_;
  Places places_;
  std::uint64_t size_ = 0;
  bool served_ = false;
};

}  // namespace lwmq::stream
