// One way of one transport through its filters: an instance of each, and what they hold.
//
//   sending   pass() asks each filter in turn when an extent is shown; nothing is held, a filter that slows
//             the sender down says until when
//   landing   put() what came from below; run() moves everything as far as it may go; take() what came out
//
// For one thread at a time (the owner's lock). Stages are in the order in which extents meet them.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "filters/filters.h"
#include "lwmq/lwmq_tli.h"

namespace lwmq::filters {

inline constexpr std::size_t kHeldMax = 4096;  // extents of one transport; behind them the peer waits
inline constexpr std::size_t kSourcedAtEndMax =
    1u << 20;  // of filters' own, behind what a peer that has gone has left
inline constexpr std::int64_t kNeverDue = INT64_MAX;

// An extent that has landed alone.
struct Extent {
  lwmq_tli_extent seen{};
  lwmq_tli_landing landing{};
};

// Where extents come from and go back to.
class Below {
 public:
  virtual void give_back(const lwmq_tli_landing& landing, std::uint32_t count) noexcept = 0;
  // A private copy in its place, with room for its bytes; gives the original back where there is one
  // (`original` false: `extent` lies in memory of a filter). False: no memory.
  virtual bool make_own(Extent* extent, bool original) noexcept = 0;
  [[nodiscard]] virtual bool is_own(const Extent& extent) noexcept = 0;

 protected:
  ~Below() = default;
};

class FilterLane {
 public:
  FilterLane(std::shared_ptr<Filters> filters, std::uint32_t way, Below& below) noexcept
      : filters_(std::move(filters)), way_(way), below_(below) {}
  FilterLane(const FilterLane&) = delete;
  FilterLane& operator=(const FilterLane&) = delete;
  ~FilterLane() { clear(); }

  // Follows the list where it has changed. The first failure to make an instance, whose place then stays
  // empty.
  Status refresh();

  // Sending. False: it was dropped. Its bytes and kind may change.
  bool pass(lwmq_tli_passing* passing) noexcept;
  // The latest of what the filters ask for that are in the list now.
  [[nodiscard]] std::int64_t blocked_until_ns() const noexcept;

  // Landing.
  void put(const Extent& extent) { input_.push_back(extent); }
  void run(std::int64_t now_ns);
  // Nothing more comes from below: what is held goes on at once, of filters' own up to kSourcedAtEndMax.
  void flush(std::int64_t now_ns);
  // Gives back all that is on its way, unseen by filters that it has not met yet.
  void clear() noexcept;
  [[nodiscard]] bool has_output() const noexcept { return !output_.empty(); }
  Extent take() noexcept;
  // When run may have something new; kNeverDue.
  [[nodiscard]] std::int64_t next_due_ns() const noexcept;
  [[nodiscard]] bool is_full() const noexcept { return held_ >= kHeldMax; }
  // Nothing is in between: what comes from below may as well be landed there.
  [[nodiscard]] bool is_open() const noexcept { return stages_.empty() && output_.empty(); }
  // Whether some of what was put has not come out.
  [[nodiscard]] bool holds() const noexcept;

 private:
  using Queue = std::deque<Extent>;
  struct Held {
    Extent extent;
    std::int64_t due_ns;
    std::uint32_t behind;  // how many may still overtake it
  };
  struct Stage {
    explicit Stage(std::shared_ptr<NamedFilter> named) noexcept : entry(std::move(named)) {}
    Stage(const Stage&) = delete;
    Stage& operator=(const Stage&) = delete;
    ~Stage() { entry->filter->destroy(instance); }
    [[nodiscard]] int held() const noexcept {
      return static_cast<int>(queue.size() + late.size()) + (has_more ? 1 : 0);
    }

    std::shared_ptr<NamedFilter> entry;
    void* instance = nullptr;
    bool has_more = false;  // of its own; counts as one that is held
    std::int64_t source_due_ns = 0;
    std::deque<Held> queue;  // in order
    std::vector<Held> late;  // overtaken by what leaves
    std::int64_t blocked_until_ns = 0;
  };

  Queue& next_of(std::size_t stage) noexcept {
    return stage + 1 < inputs_.size() ? inputs_[stage + 1] : output_;
  }
  void see(Stage& stage, Extent extent, std::int64_t now_ns, Queue& next);
  void leave(Stage& stage, const Extent& extent, Queue& next);
  void keep_or_pass(Stage& stage, const Extent& extent, std::uint64_t hold_ns, std::int64_t now_ns,
                    Queue& next);
  void take_sourced(Stage& stage, std::int64_t now_ns, Queue& next);
  void take_due(Stage& stage, std::int64_t now_ns, Queue& next);
  void note_held(Stage& stage, int more) noexcept;

  const std::shared_ptr<Filters> filters_;
  const std::uint32_t way_;
  Below& below_;
  std::uint64_t version_ = 0;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<Queue> inputs_;  // of each stage; empty between two runs
  Queue input_;
  Queue output_;
  std::size_t held_ = 0;
  bool ended_ = false;  // flush was called
  std::size_t sourced_since_ = 0;
};

}  // namespace lwmq::filters
