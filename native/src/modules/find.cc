#include "modules/find.h"

#include <cstring>

#include "base/limits.h"
#include "base/values.h"
#include "modules/modules.h"
#include "os/identity.h"
#include "tli/registry.h"

namespace lwmq::modules {

const lwmq_tli_provider* provider_at(std::uint32_t index) noexcept {
  for (std::uint32_t i = 0; const auto* entry = module_provider_at(i); ++i) {
    if (const auto* provider = tli::complete_at(entry, entry + 1, &index); provider != nullptr)
      return provider;
  }
  return tli::linked_provider_at(index);
}

const lwmq_tli_filter* filter_at(std::uint32_t index) noexcept {
  for (std::uint32_t i = 0; const auto* entry = module_filter_at(i); ++i) {
    if (const auto* filter = tli::complete_at(entry, entry + 1, &index); filter != nullptr) return filter;
  }
  return tli::linked_filter_at(index);
}

const lwmq_tli_filter* find_filter(std::string_view name) noexcept {
  for (std::uint32_t i = 0;; ++i) {
    const lwmq_tli_filter* filter = filter_at(i);
    if (filter == nullptr || name == filter->name) return filter;
  }
}

namespace {

// Nobody means a blank at the end of a name, at `end`: two processes would wait for each other for ever.
Status refuse_blank(const char* address, std::size_t end) {
  std::string meant(address, end);
  meant.erase(meant.find_last_not_of(' ') + 1);
  meant += address + end;
  return fail(LWMQ_E_ADDRESS, "'%s': a blank behind the name: did you mean '%s'?", address, meant.c_str());
}

}  // namespace

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
  const std::size_t end = std::strcspn(address, "?");
  if (end > 0 && address[end - 1] == ' ') return refuse_blank(address, end);
  for (std::uint32_t i = 0; const auto* provider = provider_at(i); ++i) {
    if (provider->claim(address) == 0) continue;
    *out_provider = provider;
    return LWMQ_OK;
  }
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

const char* behind_filters(const char* address) noexcept {
  const char* scheme_end = std::strstr(address, "://");
  if (scheme_end == nullptr) return address;
  const char* at = scheme_end;
  while (at > address && at[-1] != '+') --at;
  return at;
}

std::string without_options(const char* address) {
  const char* mark = std::strchr(address, '?');
  return mark == nullptr ? std::string(address)
                         : std::string(address, static_cast<std::size_t>(mark - address));
}

}  // namespace lwmq::modules
