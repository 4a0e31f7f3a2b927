#include "tli/tables.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace lwmq::tli {
namespace {

// One entry of a table.
struct Entry {
  const char* name;
  bool is_there;
};

#define LWMQ_ENTRY(table, name) \
  Entry { #name, (table).name != nullptr }

template <std::size_t kCount>
const char* first_missing(const Entry (&entries)[kCount]) noexcept {
  const auto* found = std::find_if(entries, entries + kCount, [](const Entry& e) { return !e.is_there; });
  return found == entries + kCount ? nullptr : found->name;
}

template <typename Table>
const char* flaw_of_head(const Table& table) noexcept {
  if (table.size != sizeof table) return "size";
  if (table.version != LWMQ_TLI_VERSION) return "version";
  return table.name == nullptr ? "name" : nullptr;
}

// As addresses name filters; `filters` is there for an empty list.
bool is_name(const char* name) noexcept {
  const std::string_view text(name);
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !text.empty() && text != "filters" && std::all_of(text.begin(), text.end(), fits);
}

// The first entry that is missing of those that come together or not at all.
template <std::size_t kCount>
const char* first_missing_of_some(const Entry (&entries)[kCount]) noexcept {
  const bool has_some = std::any_of(entries, entries + kCount, [](const Entry& e) { return e.is_there; });
  return has_some ? first_missing(entries) : nullptr;
}

const char* flaw_of(const lwmq_tli_listener_table& t) noexcept {
  const Entry always[] = {LWMQ_ENTRY(t, listen), LWMQ_ENTRY(t, accept), LWMQ_ENTRY(t, descriptor),
                          LWMQ_ENTRY(t, close)};
  return first_missing(always);
}

const char* flaw_of(const lwmq_tli_transport_table& t) noexcept {
  const Entry always[] = {LWMQ_ENTRY(t, connect),   LWMQ_ENTRY(t, peer), LWMQ_ENTRY(t, state),
                          LWMQ_ENTRY(t, acquire),   LWMQ_ENTRY(t, show), LWMQ_ENTRY(t, ship),
                          LWMQ_ENTRY(t, abandon),   LWMQ_ENTRY(t, land), LWMQ_ENTRY(t, release),
                          LWMQ_ENTRY(t, wait),      LWMQ_ENTRY(t, arm),  LWMQ_ENTRY(t, close),
                          LWMQ_ENTRY(t, descriptor)};
  return first_missing(always);
}

const char* flaw_of(const lwmq_tli_memory_table& t) noexcept {
  const Entry windows[] = {
      LWMQ_ENTRY(t, window_create),  LWMQ_ENTRY(t, window_export),      LWMQ_ENTRY(t, window_find),
      LWMQ_ENTRY(t, window_info),    LWMQ_ENTRY(t, window_owner_alive), LWMQ_ENTRY(t, window_keep),
      LWMQ_ENTRY(t, window_release),
  };
  if (const char* flaw = first_missing_of_some(windows); flaw != nullptr) return flaw;
  const Entry remote[] = {LWMQ_ENTRY(t, grant), LWMQ_ENTRY(t, revoke), LWMQ_ENTRY(t, push),
                          LWMQ_ENTRY(t, reap)};
  if (const char* flaw = first_missing_of_some(remote); flaw != nullptr) return flaw;
  const Entry registration[] = {LWMQ_ENTRY(t, register_memory), LWMQ_ENTRY(t, unregister_memory)};
  return first_missing_of_some(registration);
}

}  // namespace

const char* flaw_of(const lwmq_tli_provider& p) noexcept {
  if (const char* flaw = flaw_of_head(p); flaw != nullptr) return flaw;
  const Entry always[] = {LWMQ_ENTRY(p, claim), LWMQ_ENTRY(p, limits), LWMQ_ENTRY(p, listener),
                          LWMQ_ENTRY(p, transport)};
  if (const char* flaw = first_missing(always); flaw != nullptr) return flaw;
  if (const char* flaw = flaw_of(*p.listener); flaw != nullptr) return flaw;
  if (const char* flaw = flaw_of(*p.transport); flaw != nullptr) return flaw;
  return p.memory != nullptr ? flaw_of(*p.memory) : nullptr;
}

const char* flaw_of(const lwmq_tli_filter& f) noexcept {
  constexpr std::uint32_t kBoth = LWMQ_TLI_SENDING | LWMQ_TLI_LANDING;
  if (const char* flaw = flaw_of_head(f); flaw != nullptr) return flaw;
  if (!is_name(f.name)) return "name, which has the characters a-z, 0-9 and _";
  if (f.ways == 0 || (f.ways & ~kBoth) != 0) return "ways";
  if ((f.rewrites & ~f.ways) != 0) return "rewrites, of ways that it does not work on";
  const Entry always[] = {LWMQ_ENTRY(f, help), LWMQ_ENTRY(f, create), LWMQ_ENTRY(f, see),
                          LWMQ_ENTRY(f, destroy)};
  return first_missing(always);
}

#undef LWMQ_ENTRY

}  // namespace lwmq::tli
