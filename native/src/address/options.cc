#include "address/options.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/limits.h"
#include "base/values.h"
#include "modules/find.h"

namespace lwmq::address {
namespace {

constexpr std::uint32_t kTransport = LWMQ_TAKEN_BY_TRANSPORT;
constexpr std::uint32_t kChannel = LWMQ_TAKEN_BY_CHANNEL;
constexpr std::uint32_t kListener = LWMQ_TAKEN_BY_LISTENER;
constexpr std::uint32_t kStream = LWMQ_TAKEN_BY_STREAM;
constexpr std::uint32_t kInAddress = LWMQ_TAKEN_BY_STREAM | LWMQ_IN_ADDRESS_ALONE;
constexpr std::uint32_t kChannels = kChannel | kListener;

constexpr char kStreamKey[] = "stream";

std::uint64_t memory_of_machine() noexcept {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && page_bytes > 0
             ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes)
             : UINT64_MAX;
}

lwmq_setting setting(const char* key, std::uint32_t kind, std::uint32_t taken_by, std::uint64_t least = 0,
                     std::uint64_t most = UINT64_MAX) noexcept {
  return {sizeof(lwmq_setting), key, nullptr, least, most, kind, taken_by};
}
lwmq_setting one_of(const char* key, const char* words, std::uint32_t taken_by) noexcept {
  return {sizeof(lwmq_setting), key, words, 0, UINT64_MAX, LWMQ_VALUE_WORD, taken_by};
}

const lwmq_setting kSettings[] = {
    setting("buffer_bytes", LWMQ_VALUE_BYTES, kTransport | kChannels | kStream, 1, kBufferBytesMax),
    setting("buffers", LWMQ_VALUE_COUNT, kTransport | kChannels | kStream, 1, kBuffersMax),
    setting("buffers_send", LWMQ_VALUE_COUNT, kTransport | kChannels, 1, kBuffersMax),
    setting("buffers_receive", LWMQ_VALUE_COUNT, kTransport | kChannels, 0, kBuffersMax),
    setting("window_bytes", LWMQ_VALUE_BYTES, kStream, 1, memory_of_machine()),
    setting("staging_bytes", LWMQ_VALUE_BYTES, kStream),
    setting("timeout", LWMQ_VALUE_DURATION, kStream),
    setting("linger", LWMQ_VALUE_DURATION, kChannels | kStream),
    setting("stall", LWMQ_VALUE_DURATION, kStream),
    setting("expel_after", LWMQ_VALUE_DURATION, kStream),
    setting("retry", LWMQ_VALUE_DURATION, kTransport | kChannel),
    one_of("role", "auto, server, client", kChannel | kStream),
    one_of("retain", "until_acked, all, none", kStream),
    one_of("delivery", "live, task, job", kStream),
    setting("partitions", LWMQ_VALUE_COUNT, kStream, 1, kPartitionsMax),
    setting("readers", LWMQ_VALUE_COUNT, kStream, 1, INT32_MAX),
    setting("writers", LWMQ_VALUE_COUNT, kStream, 1, INT32_MAX),
    setting("credit", LWMQ_VALUE_COUNT, kStream, 1, kReaderCreditMax),
    setting("follow", LWMQ_VALUE_FLAG, kStream),
    setting("raw", LWMQ_VALUE_FLAG, kChannels),
    setting("secure_erase", LWMQ_VALUE_FLAG, kChannels),
    setting("home_thread", LWMQ_VALUE_FLAG, kChannels),
    one_of("trust", "user, verify", kStream),
    setting("name", LWMQ_VALUE_NAME, kStream),
    setting(kStreamKey, LWMQ_VALUE_NAME, kInAddress),
};

const char* name_of(std::uint32_t taken_by) noexcept {
  return taken_by == kTransport  ? "one transport's"
         : taken_by == kChannel  ? "a channel's"
         : taken_by == kListener ? "a listener's"
                                 : "a stream's";
}

struct Pair {
  std::string_view key;
  std::string_view value;
  bool has_value = false;
};

// Takes the next `key=value` off `*rest`.
Pair next_pair(std::string_view* rest) noexcept {
  const std::size_t end = rest->find('&');
  const std::string_view pair = rest->substr(0, end);
  rest->remove_prefix(end == std::string_view::npos ? rest->size() : end + 1);
  const std::size_t equals = pair.find('=');
  if (equals == std::string_view::npos) return {pair, {}, false};
  return {pair.substr(0, equals), pair.substr(equals + 1), true};
}

// `what` is said of option `key`.
Status refuse(const char* address, std::string_view key, const std::string& what) noexcept {
  return fail(LWMQ_E_ADDRESS, "option '%.*s' of '%s'%s", static_cast<int>(key.size()), key.data(), address,
              what.c_str());
}

// What the provider of `address` has beside those of all addresses, up to an entry without a key. Where
// nobody claims it, whoever uses the address says so.
const lwmq_setting* settings_of_provider(const char* address) noexcept {
  static constexpr lwmq_setting kNone{};
  const lwmq_tli_provider* provider = nullptr;
  if (modules::find(modules::behind_filters(address), &provider) != LWMQ_OK) forget_error();
  return provider != nullptr && provider->settings != nullptr ? provider->settings : &kNone;
}

// The keys that any of `taken_by` takes from `address`, with ", " between.
std::string keys_of(const char* address, std::uint32_t taken_by) {
  std::string keys;
  const auto append = [&](const lwmq_setting& known) {
    if ((known.taken_by & taken_by) == 0) return;
    keys += keys.empty() ? "" : ", ";
    keys += known.key;
  };
  std::for_each(std::begin(kSettings), std::end(kSettings), append);
  for (const auto* own = settings_of_provider(address); own->key != nullptr; ++own) append(*own);
  return keys;
}

// What is no single address: without a scheme, or a list of several.
Status check_whole(const char* address) {
  const char* scheme_end = std::strstr(address, "://");
  if (scheme_end == nullptr || scheme_end == address) return modules::refuse_address(address);
  const char* comma = std::strchr(scheme_end, ',');
  if (comma == nullptr || std::strstr(comma, "://") == nullptr) return LWMQ_OK;
  return fail(LWMQ_E_ADDRESS,
              "'%s' has several addresses in one text, and one is meant: a stream has one, a channel takes "
              "several as a list",
              address);
}

}  // namespace

const lwmq_setting* setting_at(std::uint32_t index) noexcept {
  return index < std::size(kSettings) ? &kSettings[index] : nullptr;
}

const lwmq_setting* find_setting(std::string_view key) noexcept {
  const auto* found = std::find_if(std::begin(kSettings), std::end(kSettings),
                                   [&](const lwmq_setting& known) { return key == known.key; });
  return found == std::end(kSettings) ? nullptr : found;
}

Status read_setting(const lwmq_setting& setting, std::string_view text, std::uint64_t* out_value) noexcept {
  std::uint64_t value = 0;
  const Status status = read_value(setting.kind, setting.words, text, &value);
  if (status != LWMQ_OK) return status;
  if (value < setting.least || value > setting.most) {
    const bool is_window = setting.most == memory_of_machine();
    return fail(LWMQ_E_INVALID, "'%.*s' is out of bounds: %" PRIu64 " to %" PRIu64 " are possible%s",
                static_cast<int>(std::min<std::size_t>(text.size(), 120)), text.data(), setting.least,
                setting.most, is_window ? ", for the machine has no more bytes of memory" : "");
  }
  *out_value = value;
  return LWMQ_OK;
}

Status read_option(const char* address, std::uint32_t taken_by, std::uint32_t index,
                   AddressOption* out_option) {
  if (const Status status = check_whole(address); status != LWMQ_OK) return status;
  const char* mark = std::strchr(address, '?');
  if (mark == nullptr) return LWMQ_E_EMPTY;
  if (mark[1] == '\0') return fail(LWMQ_E_ADDRESS, "address '%s' ends in '?' and names no option", address);
  const std::string_view all(mark + 1);
  std::string_view rest = all;
  Pair pair;
  for (std::uint32_t i = 0; i <= index; ++i) {
    if (rest.empty()) return LWMQ_E_EMPTY;
    pair = next_pair(&rest);
  }
  AddressOption found{find_setting(pair.key), pair.value, 0, -1};
  if (found.setting == nullptr) {
    const lwmq_setting* own = settings_of_provider(address);
    for (found.place = 0; own->key != nullptr && pair.key != own->key; ++own) ++found.place;
    found.setting = own;
  }
  if (found.setting->key == nullptr) {
    const std::string keys = keys_of(address, taken_by);
    const std::string_view meant = nearest_word(pair.key, keys);
    return refuse(address, pair.key,
                  meant.empty() ? " is unknown; allowed are " + keys
                                : " is unknown: did you mean '" + std::string(meant) + "'?");
  }
  if (!pair.has_value)
    return refuse(address, pair.key, " has no value: write " + std::string(pair.key) + "=...");
  for (std::string_view before = all.substr(0, static_cast<std::size_t>(pair.key.data() - all.data()));
       !before.empty();) {
    if (next_pair(&before).key == pair.key) return refuse(address, pair.key, " is given twice");
  }
  const Status status = read_setting(*found.setting, pair.value, &found.value);
  if (status != LWMQ_OK) return refuse(address, pair.key, std::string(": ") + last_error());
  if (pair.key == kStreamKey && !is_stream_name(pair.value)) {
    return refuse(address, pair.key,
                  ": the name of a stream has 1 to " + std::to_string(kStreamNameBytesMax) +
                      " letters, digits, '.', '_' and '-'");
  }
  if ((found.setting->taken_by & taken_by) == 0) {
    return refuse(
        address, pair.key,
        std::string(" is none of ") + name_of(taken_by) + "; allowed are " + keys_of(address, taken_by));
  }
  *out_option = found;
  return LWMQ_OK;
}

bool is_stream_name(std::string_view name) noexcept {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= kStreamNameBytesMax && std::ranges::all_of(name, is_allowed);
}

Status split_stream(const char* address, StreamAddress* out_address) {
  AddressOption option;
  Status status = LWMQ_OK;
  out_address->endpoint.assign(address, std::strcspn(address, "?"));
  for (std::uint32_t i = 0;; ++i) {
    status = read_option(address, LWMQ_TAKEN_BY_STREAM, i, &option);
    if (status != LWMQ_OK) return status == LWMQ_E_EMPTY ? LWMQ_OK : status;
    if (std::string_view(option.setting->key) != kStreamKey) {
      return fail(
          LWMQ_E_ADDRESS,
          "%s: options of a stream's address but 'stream' are read by Python and Spark; in C set the members "
          "of lwmq_writer_options or lwmq_reader_options",
          address);
    }
    out_address->stream = option.text;
  }
}

}  // namespace lwmq::address
