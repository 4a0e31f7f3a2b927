// A queue with a rule for what may wait in it: at most so many items, at most one of each tag. Any number of
// producer threads, one consumer thread; a mutex that is held for some loads and stores, because what a
// producer removes is what the consumer is about to take.
//
// Items lie in a ring of entries; positions only grow, but for put_back. An item that is removed from the
// middle leaves a hole. A table finds the position of a tag:
//
//      ring    | tag 7 | hole | tag 0 | tag 9 |            table   hash(7) -> 0
//      at        0       1      2       3                          hash(9) -> 3
//
// A ring that is full is laid out anew, without its holes, in one of the size that its items need: so it
// grows, and so it gives memory back, above kEntriesKept. Each layout is paid for by the pushes and pops
// since the one before.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <type_traits>

namespace lwmq::queue {

enum class WhenFull { kGrow, kDiscardOldest, kDiscardNewest };
enum class Pushed { kTaken, kFull, kNoMemory, kCrowded };  // the last: of a list for one, by two

template <typename T>
class RuledList {
  static_assert(std::is_pointer_v<T>);

 public:
  struct Counts {
    std::uint64_t pushed, popped, discarded, replaced, size;
  };

  // `capacity` counts where `rule` does not grow.
  RuledList(WhenFull rule, std::uint64_t capacity, bool tagged) noexcept
      : rule_(rule), capacity_(capacity), tagged_(tagged) {}
  RuledList(const RuledList&) = delete;
  RuledList& operator=(const RuledList&) = delete;

  // Any thread. kTaken: takes the item; what the rule had to remove for it, perhaps the item itself, is in
  // *out_gone, which is null where it removed nothing. A tag that waits already is removed first and the
  // new item goes to the end; tag 0 is no tag. kFull, only where it may not discard, and kNoMemory: nothing
  // has changed, the item is still the caller's.
  [[nodiscard]] Pushed push(T item, std::uint64_t tag, bool may_discard, T* out_gone) noexcept {
    *out_gone = nullptr;
    const std::lock_guard lock(mutex_);
    const std::uint64_t same = tag != 0 ? find(tag) : kNowhere;
    const bool full = same == kNowhere && rule_ != WhenFull::kGrow && live_ == capacity_;
    if (full && !may_discard) return Pushed::kFull;
    if (!full || rule_ == WhenFull::kDiscardOldest) {
      if (!make_place()) return Pushed::kNoMemory;  // may move `same`
    }
    add(pushed_, 1);
    if (full && rule_ == WhenFull::kDiscardNewest) {
      *out_gone = item;
      add(discarded_, 1);
      return Pushed::kTaken;
    }
    if (full) {
      *out_gone = remove(head_);
      add(discarded_, 1);
    } else if (same != kNowhere) {
      *out_gone = remove(find(tag));
      add(replaced_, 1);
    }
    append(item, tag);
    return Pushed::kTaken;
  }

  // Consumer only: what `look` says of the oldest item, which another may have replaced when this returns.
  // False: there is none.
  template <typename Look>
  [[nodiscard]] bool front(Look&& look) noexcept {
    if (empty()) return false;
    const std::lock_guard lock(mutex_);
    look(entry(head_).item);
    return true;
  }

  // Consumer only, after front: removes the oldest item, if `fits` says so of it; else null.
  template <typename Fits>
  [[nodiscard]] T take(Fits&& fits) noexcept {
    const std::lock_guard lock(mutex_);
    if (!fits(entry(head_).item)) return nullptr;
    taken_tag_ = entry(head_).tag;
    const T item = remove(head_);
    popped_.store(popped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (ring_entries_ > kEntriesKept && live_ < ring_entries_ / 8) lay_out(entries_for(live_));
    return item;
  }

  // Consumer only, after take: the item was not used after all and is the oldest again. What the rule has
  // to remove for that (the item itself, where its tag or its place was taken meanwhile) is returned.
  [[nodiscard]] T put_back(T item) noexcept {
    const std::lock_guard lock(mutex_);
    popped_.store(popped_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
    if (taken_tag_ != 0 && find(taken_tag_) != kNowhere) {
      add(replaced_, 1);
      return item;
    }
    const bool full = rule_ != WhenFull::kGrow && live_ == capacity_;
    if ((full && rule_ == WhenFull::kDiscardOldest) || !make_place()) {
      add(discarded_, 1);
      return item;
    }
    T gone = nullptr;
    if (full) {
      gone = remove(newest());
      add(discarded_, 1);
    }
    --head_;
    store(head_, item, taken_tag_);
    return gone;
  }

  // Any thread. A hint, but for the consumer, to whom "not empty" is true: nothing but take empties it.
  [[nodiscard]] bool empty() const noexcept { return live_now_.load(std::memory_order_relaxed) == 0; }
  [[nodiscard]] std::uint64_t size() const noexcept { return live_now_.load(std::memory_order_relaxed); }

  // Any thread; of one moment.
  [[nodiscard]] Counts counts() const noexcept {
    const std::lock_guard lock(mutex_);
    return {read(pushed_), read(popped_), read(discarded_), read(replaced_), live_};
  }
  // Any thread; a hint.
  [[nodiscard]] std::uint64_t pushed() const noexcept { return read(pushed_); }

  // Places that are allocated now. For tests.
  [[nodiscard]] std::uint64_t entry_count() const noexcept {
    const std::lock_guard lock(mutex_);
    return ring_entries_;
  }

  static constexpr std::uint64_t kEntriesMin = 64;
  static constexpr std::uint64_t kEntriesKept = 4096;  // 64 KiB: what a queue that was never deep keeps

 private:
  struct Entry {
    T item;  // null: a hole
    std::uint64_t tag;
  };
  using Counter = std::atomic<std::uint64_t>;
  static constexpr std::uint64_t kNowhere = UINT64_MAX;
  static constexpr std::uint64_t kFirstPosition = std::uint64_t{1} << 62;  // put_back goes below it

  static std::uint64_t read(const Counter& counter) noexcept {
    return counter.load(std::memory_order_relaxed);
  }
  // Under the mutex: no read-modify-write.
  static void add(Counter& counter, std::uint64_t amount) noexcept {
    counter.store(read(counter) + amount, std::memory_order_relaxed);
  }
  static std::uint64_t entries_for(std::uint64_t items) noexcept {
    const std::uint64_t wanted = std::bit_ceil(2 * items);  // half of it free: time until the next layout
    return wanted < kEntriesMin ? kEntriesMin : wanted;
  }

  Entry& entry(std::uint64_t position) noexcept { return ring_[position & (ring_entries_ - 1)]; }

  // ---- Everything below under the mutex.

  // A free place at the end, or before the front; may lay the ring out anew.
  bool make_place() noexcept { return tail_ - head_ < ring_entries_ || lay_out(entries_for(live_)); }

  void append(T item, std::uint64_t tag) noexcept { store(tail_++, item, tag); }

  void store(std::uint64_t position, T item, std::uint64_t tag) noexcept {
    entry(position) = {item, tag};
    if (tag != 0) enter(tag, position);
    set_live(live_ + 1);
  }

  T remove(std::uint64_t position) noexcept {
    Entry& place = entry(position);
    const T item = place.item;
    if (place.tag != 0) forget(place.tag);
    place.item = nullptr;
    set_live(live_ - 1);
    while (head_ != tail_ && entry(head_).item == nullptr) ++head_;  // the front is an item
    return item;
  }

  std::uint64_t newest() noexcept {
    std::uint64_t position = tail_ - 1;
    while (entry(position).item == nullptr) --position;
    return position;
  }

  void set_live(std::uint64_t live) noexcept {
    live_ = live;
    live_now_.store(live, std::memory_order_relaxed);
  }

  // Moves the items into a ring of `entries`, without holes. False when memory is short: all as it was.
  bool lay_out(std::uint64_t entries) noexcept {
    if (entries > PTRDIFF_MAX / sizeof(Entry)) return false;
    std::unique_ptr<Entry[]> ring(new (std::nothrow) Entry[entries]);
    std::unique_ptr<std::uint64_t[]> table(tagged_ ? new (std::nothrow) std::uint64_t[2 * entries] : nullptr);
    if (ring == nullptr || (tagged_ && table == nullptr)) return false;
    std::uint64_t tail = kFirstPosition;
    for (std::uint64_t position = head_; position != tail_; ++position) {
      if (entry(position).item != nullptr) ring[tail++ & (entries - 1)] = entry(position);
    }
    ring_ = std::move(ring);
    table_ = std::move(table);
    ring_entries_ = entries;
    head_ = kFirstPosition;
    tail_ = tail;
    if (!tagged_) return true;
    for (std::uint64_t i = 0; i < 2 * entries; ++i) table_[i] = kNowhere;
    for (std::uint64_t position = head_; position != tail_; ++position) {
      if (entry(position).tag != 0) enter(entry(position).tag, position);
    }
    return true;
  }

  // The table has twice as many slots as the ring has entries. A tag is in the first slot from its hash on
  // that was free when it came.
  std::uint64_t slot_mask() const noexcept { return 2 * ring_entries_ - 1; }
  std::uint64_t home(std::uint64_t tag) const noexcept {
    tag *= 0x9e3779b97f4a7c15;  // the golden ratio: spreads tags that count
    return (tag ^ (tag >> 32)) & slot_mask();
  }
  std::uint64_t slot_of(std::uint64_t tag) noexcept {
    std::uint64_t slot = home(tag);
    while (table_[slot] != kNowhere && entry(table_[slot]).tag != tag) slot = (slot + 1) & slot_mask();
    return slot;
  }
  std::uint64_t find(std::uint64_t tag) noexcept {
    return ring_entries_ == 0 ? kNowhere : table_[slot_of(tag)];
  }
  void enter(std::uint64_t tag, std::uint64_t position) noexcept { table_[slot_of(tag)] = position; }

  // Closes the gap: whoever stands behind it and could stand in it moves up.
  void forget(std::uint64_t tag) noexcept {
    std::uint64_t gap = slot_of(tag);
    for (std::uint64_t slot = (gap + 1) & slot_mask(); table_[slot] != kNowhere;
         slot = (slot + 1) & slot_mask()) {
      const std::uint64_t from_home = (slot - home(entry(table_[slot]).tag)) & slot_mask();
      if (from_home < ((slot - gap) & slot_mask())) continue;  // its home is behind the gap
      table_[gap] = table_[slot];
      gap = slot;
    }
    table_[gap] = kNowhere;
  }

  const WhenFull rule_;
  const std::uint64_t capacity_;
  const bool tagged_;
  mutable std::mutex mutex_;
  std::unique_ptr<Entry[]> ring_;           // null until the first push
  std::unique_ptr<std::uint64_t[]> table_;  // positions by tag
  std::uint64_t ring_entries_ = 0;          // a power of two
  std::uint64_t head_ = kFirstPosition;     // of an item, where there is one
  std::uint64_t tail_ = kFirstPosition;
  std::uint64_t live_ = 0;
  std::uint64_t taken_tag_ = 0;  // consumer's own: of what it took last
  // Written under the mutex, read by all.
  Counter live_now_{0};
  Counter pushed_{0};
  Counter popped_{0};
  Counter discarded_{0};
  Counter replaced_{0};
};

}  // namespace lwmq::queue
