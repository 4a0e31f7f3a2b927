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

const char* flaw_of(const lwmq_tli_provider& p) noexcept {
  if (const char* flaw = flaw_of_head(p); flaw != nullptr) return flaw;
  const Entry always[] = {
      LWMQ_ENTRY(p, claim),   LWMQ_ENTRY(p, limits),    LWMQ_ENTRY(p, listen),
      LWMQ_ENTRY(p, accept),  LWMQ_ENTRY(p, connect),   LWMQ_ENTRY(p, listener_fd),
      LWMQ_ENTRY(p, peer),    LWMQ_ENTRY(p, state),     LWMQ_ENTRY(p, listener_close),
      LWMQ_ENTRY(p, acquire), LWMQ_ENTRY(p, show),      LWMQ_ENTRY(p, ship),
      LWMQ_ENTRY(p, abandon), LWMQ_ENTRY(p, land),      LWMQ_ENTRY(p, free_buffers),
      LWMQ_ENTRY(p, release), LWMQ_ENTRY(p, wait),      LWMQ_ENTRY(p, unread_extents),
      LWMQ_ENTRY(p, arm),     LWMQ_ENTRY(p, disarm),    LWMQ_ENTRY(p, transport_fd),
      LWMQ_ENTRY(p, close),   LWMQ_ENTRY(p, keep_lent),
  };
  if (const char* flaw = first_missing(always); flaw != nullptr) return flaw;
  const Entry windows[] = {
      LWMQ_ENTRY(p, window_create),  LWMQ_ENTRY(p, window_export),      LWMQ_ENTRY(p, window_find),
      LWMQ_ENTRY(p, window_info),    LWMQ_ENTRY(p, window_owner_alive), LWMQ_ENTRY(p, window_keep),
      LWMQ_ENTRY(p, window_release),
  };
  const bool has_windows =
      std::any_of(std::begin(windows), std::end(windows), [](const Entry& e) { return e.is_there; });
  if (const char* flaw = first_missing(windows); has_windows && flaw != nullptr) return flaw;
  if (p.land_run != nullptr && p.release_last == nullptr) return "release_last, which land_run needs";
  if (p.land_run != nullptr && p.release_run == nullptr) return "release_run, which land_run needs";
  if (p.land_soon != nullptr && p.land_run == nullptr) return "land_run, which land_soon needs";
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
