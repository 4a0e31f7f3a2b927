#include "tli/tables.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace lwmq::tli {
namespace {

// One entry of what is filled in. Of a provider's tables the name says which one: `listener.close`.
struct Entry {
  const char* name;
  bool is_there;
};

#define LWMQ_ENTRY(whole, name) \
  Entry { #name, (whole).name != nullptr }
#define LWMQ_TABLE_ENTRY(table, name) \
  Entry { #table "." #name, (table).name != nullptr }

template <std::size_t kCount>
const char* first_missing(const Entry (&entries)[kCount]) noexcept {
  const auto* found = std::find_if(entries, entries + kCount, [](const Entry& e) { return !e.is_there; });
  return found == entries + kCount ? nullptr : found->name;
}

template <std::size_t kCount>
bool has_any(const Entry (&entries)[kCount]) noexcept {
  return std::any_of(entries, entries + kCount, [](const Entry& e) { return e.is_there; });
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

}  // namespace

const lwmq_tli_fast_table& fast_of(const lwmq_tli_provider& provider) noexcept {
  static constexpr lwmq_tli_fast_table kNone{};
  return provider.fast != nullptr ? *provider.fast : kNone;
}

bool shares_windows(const lwmq_tli_provider& provider) noexcept {
  return provider.memory != nullptr && provider.memory->create != nullptr;
}

bool takes_pushes(const lwmq_tli_provider& provider) noexcept {
  return provider.memory != nullptr && provider.memory->push != nullptr;
}

const char* flaw_of(const lwmq_tli_provider& p) noexcept {
  if (const char* flaw = flaw_of_head(p); flaw != nullptr) return flaw;
  const Entry parts[] = {LWMQ_ENTRY(p, claim), LWMQ_ENTRY(p, limits), LWMQ_ENTRY(p, listener),
                         LWMQ_ENTRY(p, attempt), LWMQ_ENTRY(p, transport)};
  if (const char* flaw = first_missing(parts); flaw != nullptr) return flaw;
  const lwmq_tli_listener_table& listener = *p.listener;
  const Entry of_listener[] = {LWMQ_TABLE_ENTRY(listener, listen), LWMQ_TABLE_ENTRY(listener, accept),
                               LWMQ_TABLE_ENTRY(listener, descriptor), LWMQ_TABLE_ENTRY(listener, close)};
  if (const char* flaw = first_missing(of_listener); flaw != nullptr) return flaw;
  const lwmq_tli_attempt_table& attempt = *p.attempt;
  const Entry of_attempt[] = {LWMQ_TABLE_ENTRY(attempt, begin), LWMQ_TABLE_ENTRY(attempt, advance),
                              LWMQ_TABLE_ENTRY(attempt, descriptor), LWMQ_TABLE_ENTRY(attempt, cancel)};
  if (const char* flaw = first_missing(of_attempt); flaw != nullptr) return flaw;
  const lwmq_tli_transport_table& transport = *p.transport;
  const Entry of_transport[] = {
      LWMQ_TABLE_ENTRY(transport, peer),       LWMQ_TABLE_ENTRY(transport, state),
      LWMQ_TABLE_ENTRY(transport, acquire),    LWMQ_TABLE_ENTRY(transport, show),
      LWMQ_TABLE_ENTRY(transport, ship),       LWMQ_TABLE_ENTRY(transport, abandon),
      LWMQ_TABLE_ENTRY(transport, land),       LWMQ_TABLE_ENTRY(transport, release),
      LWMQ_TABLE_ENTRY(transport, wait),       LWMQ_TABLE_ENTRY(transport, arm),
      LWMQ_TABLE_ENTRY(transport, descriptor), LWMQ_TABLE_ENTRY(transport, close),
  };
  if (const char* flaw = first_missing(of_transport); flaw != nullptr) return flaw;
  const lwmq_tli_fast_table& fast = fast_of(p);
  if (fast.land_run != nullptr && fast.release_last == nullptr)
    return "fast.release_last, which fast.land_run needs";
  if (fast.land_run != nullptr && fast.release_run == nullptr)
    return "fast.release_run, which fast.land_run needs";
  if (fast.land_soon != nullptr && fast.land_run == nullptr)
    return "fast.land_run, which fast.land_soon needs";
  if (p.memory != nullptr) {
    const lwmq_tli_memory_table& memory = *p.memory;
    const Entry of_windows[] = {
        LWMQ_TABLE_ENTRY(memory, create),      LWMQ_TABLE_ENTRY(memory, export_to),
        LWMQ_TABLE_ENTRY(memory, find),        LWMQ_TABLE_ENTRY(memory, info),
        LWMQ_TABLE_ENTRY(memory, owner_alive), LWMQ_TABLE_ENTRY(memory, keep),
        LWMQ_TABLE_ENTRY(memory, release),
    };
    const Entry of_grants[] = {
        LWMQ_TABLE_ENTRY(memory, pin),    LWMQ_TABLE_ENTRY(memory, unpin), LWMQ_TABLE_ENTRY(memory, grant),
        LWMQ_TABLE_ENTRY(memory, revoke), LWMQ_TABLE_ENTRY(memory, push),  LWMQ_TABLE_ENTRY(memory, reap),
    };
    const bool has_windows = has_any(of_windows);
    const bool has_grants = has_any(of_grants);
    if (!has_windows && !has_grants) return "memory, which is empty";
    const char* flaw = has_windows ? first_missing(of_windows) : nullptr;
    if (flaw == nullptr && has_grants) flaw = first_missing(of_grants);
    if (flaw != nullptr) return flaw;
  }
  for (const lwmq_setting* s = p.settings; s != nullptr && s->key != nullptr; ++s) {
    constexpr std::uint32_t kTakenBy =
        LWMQ_TAKEN_BY_TRANSPORT | LWMQ_TAKEN_BY_CHANNEL | LWMQ_TAKEN_BY_LISTENER;
    if (s->size != sizeof *s) return "settings, of which one has another size";
    if (s->taken_by != kTakenBy) return "settings, of which one is not taken by all";
    if (s->kind > LWMQ_VALUE_NAME || (s->kind == LWMQ_VALUE_WORD && s->words == nullptr))
      return "settings, of which one has no kind or no words";
  }
  if (p.service != nullptr && p.service_wake == nullptr) return "service_wake, which service needs";
  if (p.service == nullptr && p.service_wake != nullptr) return "service, which service_wake needs";
  return nullptr;
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

#undef LWMQ_TABLE_ENTRY
#undef LWMQ_ENTRY

}  // namespace lwmq::tli
