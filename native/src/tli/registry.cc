#include "tli/registry.h"

#include <algorithm>
#include <cstring>

#include "base/limits.h"
#include "base/values.h"
#include "os/identity.h"
#include "tli/filtered.h"
#include "tli/modules.h"
#include "tli/tables.h"

// The linker's own bounds of the sections. Hidden, so that each library sees its own; weak, so that a library
// without any provider still links.
extern "C" {
[[gnu::visibility("hidden"), gnu::weak]] extern const lwmq_tli_provider* const __start_lwmq_tli[];
[[gnu::visibility("hidden"), gnu::weak]] extern const lwmq_tli_provider* const __stop_lwmq_tli[];
[[gnu::visibility("hidden"), gnu::weak]] extern const lwmq_tli_filter* const __start_lwmq_tli_filter[];
[[gnu::visibility("hidden"), gnu::weak]] extern const lwmq_tli_filter* const __stop_lwmq_tli_filter[];
}

namespace lwmq::tli {
namespace {

// The n-th complete table between two bounds; `*index` counts down over several ranges.
template <typename Table>
const Table* complete_at(const Table* const* begin, const Table* const* end, std::uint32_t* index) noexcept {
  for (const auto* entry = begin; entry < end; ++entry) {
    if (*entry == nullptr || flaw_of(**entry) != nullptr) continue;
    if ((*index)-- == 0) return *entry;
  }
  return nullptr;
}

}  // namespace

const lwmq_tli_provider* provider_at(std::uint32_t index) noexcept {
  for (std::uint32_t i = 0; const auto* entry = module_provider_at(i); ++i) {
    if (const auto* provider = complete_at(entry, entry + 1, &index); provider != nullptr) return provider;
  }
  return complete_at(__start_lwmq_tli, __stop_lwmq_tli, &index);
}

const lwmq_tli_filter* filter_at(std::uint32_t index) noexcept {
  for (std::uint32_t i = 0; const auto* entry = module_filter_at(i); ++i) {
    if (const auto* filter = complete_at(entry, entry + 1, &index); filter != nullptr) return filter;
  }
  return complete_at(__start_lwmq_tli_filter, __stop_lwmq_tli_filter, &index);
}

const lwmq_tli_filter* find_filter(std::string_view name) noexcept {
  for (std::uint32_t i = 0;; ++i) {
    const lwmq_tli_filter* filter = filter_at(i);
    if (filter == nullptr || name == filter->name) return filter;
  }
}

Status find(const char* address, const lwmq_tli_provider** out_provider) noexcept {
  if (os::forked())
    return fail(
        LWMQ_E_CLOSED,
        "forked: the threads and handles of the library are the parent's; a child opens what it needs "
        "after exec (in Python, the multiprocessing method 'spawn')");
  if (address == nullptr || std::strlen(address) > kAddressBytesMax) {
    return fail(LWMQ_E_ADDRESS, "an address of %zu bytes; 1 to %u are possible: %.60s...",
                address == nullptr ? 0 : std::strlen(address), kAddressBytesMax,
                address == nullptr ? "" : address);
  }
  const lwmq_tli_provider* provider = nullptr;
  for (std::uint32_t i = 0; (provider = provider_at(i)) != nullptr; ++i) {
    if (provider->claim(address) != 0) {
      *out_provider = provider;
      return LWMQ_OK;
    }
  }
  if (behind_filters(address) != address) return find_filtered(address, out_provider);
  return refuse_address(address);
}

namespace {

std::string provider_names() {
  std::string names;
  for (std::uint32_t i = 0; const auto* provider = provider_at(i); ++i) {
    names += names.empty() ? "" : ", ";
    names += provider->name;
  }
  return names;
}

// The address that stands behind `rest` where no scheme was said: of the first provider between processes
// that has such an address.
std::string with_some_scheme(const std::string& rest) {
  for (std::uint32_t i = 0; const auto* provider = provider_at(i); ++i) {
    std::string address = std::string(provider->name) + "://" + rest;
    lwmq_limits limits{};
    limits.size = sizeof limits;
    const bool has_one = provider->limits(without_options(address.c_str()).c_str(), &limits) == LWMQ_OK;
    if (has_one && (limits.capabilities & LWMQ_IS_IN_PROCESS) == 0) return address;
  }
  return {};
}

// What `address` may be a slip of; empty: nothing is near.
std::string meant_address(std::string_view address, const std::string& names) {
  const std::size_t colon = address.find(':');
  if (colon != std::string_view::npos && address.find('/') > colon) {
    const std::string_view scheme = nearest_word(address.substr(0, colon), names);
    if (scheme.empty()) return {};
    std::string_view rest = address.substr(colon + 1);
    if (rest.starts_with("//")) return std::string(scheme) + ":" + std::string(rest);
    if (rest.starts_with('/') && rest.find('/', 1) == std::string_view::npos) rest.remove_prefix(1);
    return std::string(scheme) + "://" + std::string(rest);
  }
  while (address.starts_with("./")) address.remove_prefix(2);
  return address.empty() ? std::string() : with_some_scheme(std::string(address));
}

}  // namespace

Status refuse_address(const char* address) {
  const std::string names = provider_names();
  const std::string meant = meant_address(address, names);
  const bool has_scheme = std::strstr(address, "://") != nullptr && address[0] != ':';
  const char* why = has_scheme ? "no provider claims this scheme" : "the address has no scheme";
  if (meant.empty()) return fail(LWMQ_E_ADDRESS, "'%s': %s; there are: %s", address, why, names.c_str());
  return fail(LWMQ_E_ADDRESS, "'%s': %s: did you mean '%s'? There are: %s", address, why, meant.c_str(),
              names.c_str());
}

namespace {

template <typename Call>
Status with_text(const lwmq_tli_provider& provider, const char* address, Call&& call) {
  forget_error();
  const Status status = call();
  if (!is_failure(status) || last_error()[0] != '\0') return status;
  return fail(status, "%s: provider '%s' answers %s without a text", address, provider.name,
              status_name(status));
}

}  // namespace

Status limits(const lwmq_tli_provider& provider, const char* address, lwmq_limits* out_limits) {
  return with_text(provider, address, [&] { return provider.limits(address, out_limits); });
}

Status listen(const lwmq_tli_provider& provider, const char* address, const lwmq_tli_options& options,
              lwmq_tli_listener** out_listener) noexcept {
  return with_text(provider, address, [&] { return provider.listen(address, &options, out_listener); });
}

Status connect(const lwmq_tli_provider& provider, const char* address, const lwmq_tli_options& options,
               std::uint32_t timeout_ms, lwmq_tli_transport** out_transport) noexcept {
  return with_text(provider, address,
                   [&] { return provider.connect(address, &options, timeout_ms, out_transport); });
}

std::string without_options(const char* address) {
  const char* mark = std::strchr(address, '?');
  return mark == nullptr ? std::string(address)
                         : std::string(address, static_cast<std::size_t>(mark - address));
}

}  // namespace lwmq::tli
