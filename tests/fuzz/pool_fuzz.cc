// A writer's pool of windows while the endpoint's ledger and the readers' lease pages hold what somebody else
// wrote there. They may free what is still read, which is their loss; two blocks that are lent never overlap.
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "input.h"
#include "plain_windows.h"
#include "stream/window_pool.h"

namespace lwmq::fuzz {
namespace {

constexpr std::uint64_t kLimitBytes = 64 * 1024;
constexpr std::size_t kStepsMax = 300;

}  // namespace
}  // namespace lwmq::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lwmq;
  using namespace lwmq::fuzz;
  static const lwmq_tli_provider table = plain_windows();
  Input input(data, size);
  std::vector<lwmq_block> lent;
  std::vector<std::pair<lwmq_block, lwmq_hold*>> held;
  std::vector<wire::Publish> published;
  std::vector<std::uint8_t*> pages;
  stream::WindowPool pool(
      &table, "fuzz", [](void*) { return true; }, nullptr);
  const auto make_page = [](std::uint8_t** out_base) {
    stream::LapPage page;
    stream::LapPage::create(&table, &page);
    *out_base = page.window().base();
    return page;
  };
  const auto put = [](std::uint8_t* page, std::uint32_t slot, std::uint32_t lap) {
    std::memcpy(page + slot % kWindowSlotsMax * 4, &lap, sizeof lap);
  };
  std::uint8_t* ledger = nullptr;
  pool.set_ledger(make_page(&ledger));
  for (std::size_t step = 0; step < kStepsMax && !input.empty(); ++step) {
    switch (input.take<std::uint8_t>() % 9) {
      case 0:
      case 1: {
        lwmq_block block{};
        std::int64_t made = -1;
        const std::uint64_t bytes = input.take<std::uint32_t>() % (2 * kLimitBytes);
        if (pool.allocate(bytes, kLimitBytes, &block, &made) != LWMQ_OK) break;
        require(block.bytes >= bytes, "a block has room for what was asked for");
        std::memset(block.data, 0x5a, block.bytes);
        const auto is_apart = [&block](const lwmq_block& other) {
          return block.data + block.bytes <= other.data || other.data + other.bytes <= block.data;
        };
        for (const auto& other : lent) require(is_apart(other), "lent blocks do not overlap");
        for (const auto& [other, _] : held) require(is_apart(other), "a held block is not lent again");
        lent.push_back(block);
        break;
      }
      case 2: {
        if (lent.empty()) break;
        wire::Publish record{};
        require(pool.publish(lent.back(), false, &record), "a lent block can be published");
        require(!pool.publish(lent.back(), false, &record), "once");
        lent.pop_back();
        published.push_back(record);
        break;
      }
      case 3:
        if (lent.empty()) break;
        require(pool.discard(lent.back()), "a lent block can be given back");
        lent.pop_back();
        break;
      case 4:  // the endpoint drops what there is
        if (!published.empty())
          put(ledger, published.front().slot, published.front().lap), published.erase(published.begin());
        break;
      case 5:  // or writes what it likes
        put(ledger, input.take<std::uint16_t>(), input.take<std::uint32_t>());
        break;
      case 6: {
        if (pages.size() < 4) {
          pool.add_lease_page(make_page(&pages.emplace_back()));
          break;
        }
        // A page that says "finished" goes with the next look; ours stays in its hands until then.
        put(pages[input.take<std::uint8_t>() % pages.size()],
            input.take<std::uint16_t>() % stream::kFinishedSlot, input.take<std::uint32_t>());
        break;
      }
      case 8: {
        if (lent.empty() || input.take<std::uint8_t>() % 2 == 0) {
          if (held.empty()) break;
          lwmq_hold* hold = held.back().second;
          // What is lent and neither published nor discarded goes back with its hold: it is lent no more.
          std::erase_if(lent, [&](const lwmq_block& block) { return block.data == held.back().first.data; });
          held.pop_back();
          hold->end();
          break;
        }
        if (lwmq_hold* hold = pool.hold(lent.back())) held.emplace_back(lent.back(), hold);
        break;
      }
      default:
        pool.holders();
    }
  }
  for (const auto& [_, hold] : held) hold->end();
  return 0;
}
