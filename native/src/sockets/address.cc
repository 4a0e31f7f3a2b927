#include "sockets/address.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/limits.h"
#include "base/values.h"

namespace lwmq::sockets {
namespace {

constexpr std::size_t kNameMax = 119;
constexpr std::uint64_t kSecondNs = 1'000'000'000;
// The kernel counts its probes in seconds, and gives up by itself after a quarter of an hour.
constexpr std::uint32_t kSilentLeastS = 2, kSilentMostS = 900;

Status refuse(const Address& address, const char* why) noexcept {
  const Family& family = *address.family;
  const char* scheme = address.is_secure ? family.secure_scheme : family.scheme;
  return fail(LWMQ_E_ADDRESS, "%s: %s; write %shost:port or %shost:port/name, and %s", address.text.c_str(),
              why, scheme, scheme, family.form);
}

bool is_name_character(char c) noexcept { return c > ' ' && c != 0x7f && c != '?' && c != '#'; }

bool is_key_kept(const Address& address) noexcept {
  os::TlsKey key;
  return os::find_kept_key(address.name, &key);
}

Status read_silent(const char* text, const char* value, std::uint32_t* out_s) noexcept {
  std::uint64_t ns = 0;
  if (const Status status = read_value(LWMQ_VALUE_DURATION, nullptr, value, &ns); status != LWMQ_OK) {
    add_context(text);
    return status;
  }
  const bool is_forever = ns == UINT64_MAX;
  const std::uint64_t s = is_forever ? 0 : ns / kSecondNs;
  *out_s = static_cast<std::uint32_t>(s);
  if (is_forever || (s >= kSilentLeastS && s <= kSilentMostS)) return LWMQ_OK;
  return fail(LWMQ_E_INVALID, "%s: silent=%.40s; %us to %us are possible, and 'forever'", text, value,
              kSilentLeastS, kSilentMostS);
}

Status read_own(const Address& address, const lwmq_tli_options& options, Own* out_own) noexcept {
  const char* text = address.text.c_str();
  os::TlsFiles& files = out_own->files;
  out_own->wishes.silent_s = address.family->silent_s;
  const std::pair<std::string_view, std::string*> known[] = {{"psk", &files.psk},
                                                             {"certificate", &files.certificate},
                                                             {"private_key", &files.private_key},
                                                             {"authority", &files.authority}};
  for (std::uint32_t i = 0; i < options.settings_count; ++i) {
    const lwmq_tli_setting& setting = options.settings[i];
    for (const auto& [name, file] : known) {
      if (name == setting.name) *file = setting.value;
    }
    if (std::strcmp(setting.name, "device") == 0) out_own->device = setting.value;
    if (std::strcmp(setting.name, "engine") == 0) {
      out_own->wishes.uring = std::strcmp(setting.value, "uring") == 0;
      if (!out_own->wishes.uring && std::strcmp(setting.value, "epoll") != 0)
        return fail(LWMQ_E_INVALID, "%s: engine=%.40s; there are 'epoll' and 'uring'", text, setting.value);
    }
    if (std::strcmp(setting.name, "silent") == 0) {
      if (const Status status = read_silent(text, setting.value, &out_own->wishes.silent_s);
          status != LWMQ_OK)
        return status;
    }
    if (std::strcmp(setting.name, "auth") != 0) continue;
    if (std::strcmp(setting.value, "none") != 0)
      return fail(LWMQ_E_INVALID, "%s: auth=%.40s; there is 'auth=none' alone", text, setting.value);
    out_own->is_open = true;
  }
  if (!address.is_secure) return LWMQ_OK;
  const bool has_some = !files.certificate.empty() || !files.private_key.empty() || !files.authority.empty();
  if (files == os::TlsFiles{} && is_key_kept(address)) return LWMQ_OK;
  const bool has_all = !files.certificate.empty() && !files.private_key.empty() && !files.authority.empty();
  if (files.psk.empty() ? has_all : !has_some) return LWMQ_OK;
  return fail(LWMQ_E_INVALID,
              "%s: %s: give psk=FILE, a key that both ends share, or certificate=FILE, private_key=FILE and "
              "authority=FILE",
              text,
              has_some && !files.psk.empty() ? "a key and certificates"
              : has_some                     ? "a part of the credentials"
                                             : "no credentials");
}

}  // namespace

Status parse(const Family& family, const char* address, Address* out_address) {
  std::string_view rest(std::strstr(address, "//") + 2);
  Address& parsed = *out_address;
  parsed.family = &family;
  parsed.text = address;
  parsed.is_secure = family.secure_scheme != nullptr && parsed.text.starts_with(family.secure_scheme);
  if (const char* wrong = family.take_host(&rest, &parsed.host); wrong != nullptr)
    return refuse(parsed, wrong);
  if (rest.empty() || rest.front() != ':') return refuse(parsed, "the port is missing");
  rest.remove_prefix(1);
  const std::size_t end = std::min(rest.find('/'), rest.size());
  std::uint64_t port = 0;
  bool is_port = end > 0;
  for (const char c : rest.substr(0, end)) {
    is_port = is_port && c >= '0' && c <= '9' && port <= family.port_max;
    port = port * 10 + static_cast<std::uint64_t>(c - '0');
  }
  if (!is_port || port > family.port_max) {
    const std::string wrong = "the port is no number of 0 to " + std::to_string(family.port_max);
    return refuse(parsed, wrong.c_str());
  }
  parsed.port = static_cast<std::uint32_t>(port);
  rest.remove_prefix(end);
  if (!rest.empty()) rest.remove_prefix(1);
  if (rest.size() > kNameMax) return refuse(parsed, "the name has more than 119 characters");
  if (!std::all_of(rest.begin(), rest.end(), is_name_character))
    return refuse(parsed, "the name has a blank, '?', '#' or a control character");
  parsed.name = rest;
  return LWMQ_OK;
}

Status check_options(const Address& address, const lwmq_tli_options* options, Own* out_own) noexcept {
  const char* text = address.text.c_str();
  if (const Status status = read_own(address, *options, out_own); status != LWMQ_OK) return status;
  if (options->buffers_send == 0 || options->buffers_send > kBuffersMax)
    return fail(LWMQ_E_INVALID, "%s: %u send buffers; 1 to %u are possible", text, options->buffers_send,
                kBuffersMax);
  if (options->buffer_bytes < kBufferBytesMin || options->buffer_bytes > kBufferBytesMax)
    return fail(LWMQ_E_INVALID, "%s: buffers of %" PRIu64 " bytes; %" PRIu64 " to %" PRIu64 " are possible",
                text, options->buffer_bytes, kBufferBytesMin, kBufferBytesMax);
  return LWMQ_OK;
}

}  // namespace lwmq::sockets
