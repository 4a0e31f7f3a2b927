#include "stream/kept_windows.h"

#include <utility>

#include "os/memory_budget.h"
#include "stream/idle_cache.h"

namespace lwmq::stream {
namespace {

constexpr std::int64_t kMappedNs = 10'000'000'000;
constexpr std::int64_t kSpareNs = 30'000'000'000;

std::uint64_t room() noexcept { return os::window_memory_budget() / 2; }

// One reference to a window.
class KeptWindow {
 public:
  KeptWindow(const lwmq_tli_provider* provider, lwmq_tli_window* window, std::string address = {}) noexcept
      : address_(std::move(address)), provider_(provider), window_(window) {}
  KeptWindow(KeptWindow&& other) noexcept
      : address_(std::move(other.address_)), provider_(other.provider_), window_(other.give()) {}
  KeptWindow(const KeptWindow&) = delete;
  KeptWindow& operator=(const KeptWindow&) = delete;
  KeptWindow& operator=(KeptWindow&&) = delete;
  ~KeptWindow() {
    if (window_ != nullptr) provider_->window_release(window_);
  }

  lwmq_tli_window* give() noexcept { return std::exchange(window_, nullptr); }
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] const lwmq_tli_window* get() const noexcept { return window_; }
  [[nodiscard]] bool is_of_use() const noexcept { return provider_->window_owner_alive(window_) != 0; }
  [[nodiscard]] std::uint64_t size() const noexcept {
    lwmq_tli_window_info info;
    provider_->window_info(window_, &info);
    return info.bytes;
  }

 private:
  std::string address_;
  const lwmq_tli_provider* provider_;
  lwmq_tli_window* window_;
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

void keep_mapped(const lwmq_tli_provider* provider, lwmq_tli_window* window) {
  mapped().take([window](const KeptWindow& kept) { return kept.get() == window; });  // once is enough
  mapped().put(KeptWindow(provider, window));
}

void keep_spare(const std::string& address, const lwmq_tli_provider* provider, lwmq_tli_window* window) {
  spares().put(KeptWindow(provider, window, address));
}

lwmq_tli_window* take_spare(const std::string& address, std::uint64_t bytes_min, std::uint64_t bytes_max) {
  auto found = spares().take([&](const KeptWindow& kept) {
    return kept.address() == address && kept.size() >= bytes_min && kept.size() <= bytes_max;
  });
  return found ? found->give() : nullptr;
}

bool drop_spares() { return spares().clear(); }

}  // namespace lwmq::stream
