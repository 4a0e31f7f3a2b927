#include "stream/kept_windows.h"

#include <utility>

#include "os/memory_budget.h"
#include "stream/idle_cache.h"

namespace lwmq::stream {
namespace {

constexpr std::int64_t kMappedNs = 10'000'000'000;
constexpr std::int64_t kSpareNs = 30'000'000'000;

std::uint64_t room() noexcept { return os::window_memory_budget() / 2; }

struct KeptWindow {
  std::string place;
  Window window;
  [[nodiscard]] bool is_of_use() const noexcept { return window.owner_lives(); }
  [[nodiscard]] std::uint64_t size() const noexcept { return window.bytes(); }
};

// Never destroyed: threads may outlive main.
IdleCache<KeptWindow>& mapped() noexcept {
  static auto* instance = new IdleCache<KeptWindow>(kMappedNs, room);
  return *instance;
}

IdleCache<KeptWindow>& spares() noexcept {
  static auto* instance = new IdleCache<KeptWindow>(kSpareNs, room);
  return *instance;
}

}  // namespace

void keep_mapped(Window window) {
  // Once is enough: an older reference to the same window goes.
  mapped().take([&](const KeptWindow& kept) { return kept.window.get() == window.get(); });
  mapped().put({{}, std::move(window)});
}

void keep_spare(const std::string& place, Window window) { spares().put({place, std::move(window)}); }

std::string place_of(const std::string& address) {
  return address.substr(0, address.rfind('/', address.find('?')) + 1);
}

Window take_spare(const std::string& place, std::uint64_t bytes_min, std::uint64_t bytes_max) {
  auto found = spares().take([&](const KeptWindow& kept) {
    return kept.place == place && kept.size() >= bytes_min && kept.size() <= bytes_max;
  });
  return found ? std::move(found->window) : Window();
}

Status create_window(const lwmq_tli_provider* provider, std::uint64_t bytes, Window* out_window) {
  Status status = Window::create(provider, bytes, out_window);
  if (status == LWMQ_E_NO_MEMORY && spares().clear()) status = Window::create(provider, bytes, out_window);
  return status;
}

}  // namespace lwmq::stream
