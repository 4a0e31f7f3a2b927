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

}  // namespace

const lwmq_tli_fast_table& fast_of(const lwmq_tli_provider& provider) noexcept {
  static constexpr lwmq_tli_fast_table kNone{};
  return provider.fast != nullptr ? *provider.fast : kNone;
}

const char* flaw_of(const lwmq_tli_provider& p) noexcept {
  if (const char* flaw = flaw_of_head(p); flaw != nullptr) return flaw;
  const Entry parts[] = {LWMQ_ENTRY(p, claim), LWMQ_ENTRY(p, limits), LWMQ_ENTRY(p, listener),
                         LWMQ_ENTRY(p, transport)};
  if (const char* flaw = first_missing(parts); flaw != nullptr) return flaw;
  const lwmq_tli_listener_table& l = *p.listener;
  const Entry of_listener[] = {LWMQ_ENTRY(l, listen), LWMQ_ENTRY(l, accept), LWMQ_ENTRY(l, descriptor),
                               LWMQ_ENTRY(l, close)};
  if (const char* flaw = first_missing(of_listener); flaw != nullptr) return flaw;
  const lwmq_tli_transport_table& t = *p.transport;
  const Entry of_transport[] = {
      LWMQ_ENTRY(t, connect), LWMQ_ENTRY(t, peer), LWMQ_ENTRY(t, state),   LWMQ_ENTRY(t, acquire),
      LWMQ_ENTRY(t, show),    LWMQ_ENTRY(t, ship), LWMQ_ENTRY(t, abandon), LWMQ_ENTRY(t, land),
      LWMQ_ENTRY(t, release), LWMQ_ENTRY(t, wait), LWMQ_ENTRY(t, arm),     LWMQ_ENTRY(t, descriptor),
      LWMQ_ENTRY(t, close),
  };
  if (const char* flaw = first_missing(of_transport); flaw != nullptr) return flaw;
  const lwmq_tli_fast_table& f = fast_of(p);
  if (f.land_run != nullptr && f.release_last == nullptr) return "release_last, which land_run needs";
  if (f.land_run != nullptr && f.release_run == nullptr) return "release_run, which land_run needs";
  if (f.land_soon != nullptr && f.land_run == nullptr) return "land_run, which land_soon needs";
  if (p.memory != nullptr) {
    const lwmq_tli_memory_table& m = *p.memory;
    const Entry of_memory[] = {
        LWMQ_ENTRY(m, create),      LWMQ_ENTRY(m, export_to), LWMQ_ENTRY(m, find),    LWMQ_ENTRY(m, info),
        LWMQ_ENTRY(m, owner_alive), LWMQ_ENTRY(m, keep),      LWMQ_ENTRY(m, release),
    };
    if (const char* flaw = first_missing(of_memory); flaw != nullptr) return flaw;
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

#undef LWMQ_ENTRY

}  // namespace lwmq::tli
