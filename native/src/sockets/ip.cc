#include "sockets/ip.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

namespace lwmq::sockets::ip {
namespace {

constexpr std::size_t kHostMax = 253;  // RFC 1035

const sockaddr_in& as_v4(const Place& place) noexcept {
  return reinterpret_cast<const sockaddr_in&>(place.address);
}
const sockaddr_in6& as_v6(const Place& place) noexcept {
  return reinterpret_cast<const sockaddr_in6&>(place.address);
}

bool is_host_character(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
         c == '_';
}

}  // namespace

const char* take_host(std::string_view* rest, std::string* out_host) {
  std::string& host = *out_host;
  if (!rest->empty() && rest->front() == '[') {
    const std::size_t end = rest->find(']');
    if (end == std::string_view::npos) return "a '[' without its ']'";
    host = rest->substr(1, end - 1);
    in6_addr number{};
    if (inet_pton(AF_INET6, host.c_str(), &number) != 1) return "no IPv6 number stands between the brackets";
    rest->remove_prefix(end + 1);
    return nullptr;
  }
  const std::size_t end = std::min(rest->find_first_of(":/"), rest->size());
  host = rest->substr(0, end);
  if (host.empty()) return "the host is missing";
  if (host.size() > kHostMax) return "the host has more than 253 characters";
  if (host != "*" && !std::all_of(host.begin(), host.end(), is_host_character))
    return "the host has characters other than letters, digits, '.', '-' and '_'";
  rest->remove_prefix(end);
  return nullptr;
}

Status resolve(const Address& address, bool may_wait, std::vector<Place>* out_places) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = (may_wait ? 0 : AI_NUMERICHOST) | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  const bool everywhere = address.host == "*";
  if (everywhere) hints.ai_flags |= AI_PASSIVE;
  const bool is_known = !may_wait && address.host == "localhost";  // without a name server, on every system
  const char* host = everywhere ? nullptr : is_known ? "127.0.0.1" : address.host.c_str();
  if (const int error = getaddrinfo(host, port.c_str(), &hints, &found); error != 0)
    return error == EAI_AGAIN ? LWMQ_E_TIMED_OUT : LWMQ_E_EMPTY;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    Place place;
    std::memcpy(&place.address, at->ai_addr, at->ai_addrlen);
    place.bytes = at->ai_addrlen;
    out_places->push_back(place);
  }
  freeaddrinfo(found);
  return out_places->empty() ? LWMQ_E_EMPTY : LWMQ_OK;
}

std::string host_for_clients(const Address& address) {
  return address.host.find(':') != std::string::npos ? "[" + address.host + "]" : address.host;
}

bool is_loopback(const Place& place) {
  if (place.address.ss_family == AF_INET) return ntohl(as_v4(place).sin_addr.s_addr) >> 24 == 127;
  return IN6_IS_ADDR_LOOPBACK(&as_v6(place).sin6_addr) != 0;
}

std::uint32_t port_of(const Place& place) {
  return ntohs(place.address.ss_family == AF_INET ? as_v4(place).sin_port : as_v6(place).sin6_port);
}

// "127.0.0.1:5555", "[::1]:5555".
std::string text_of(const Place& place) {
  char number[INET6_ADDRSTRLEN] = "?";
  const bool is_v4 = place.address.ss_family == AF_INET;
  const void* raw = is_v4 ? static_cast<const void*>(&as_v4(place).sin_addr)
                          : static_cast<const void*>(&as_v6(place).sin6_addr);
  inet_ntop(place.address.ss_family, raw, number, sizeof number);
  return (is_v4 ? std::string(number) : "[" + std::string(number) + "]") + ":" +
         std::to_string(port_of(place));
}

}  // namespace lwmq::sockets::ip
