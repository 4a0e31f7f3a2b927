// Hosts and ports of the Internet protocol, for the families that use them. The functions are entries of
// `Family`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "sockets/address.h"

namespace lwmq::sockets::ip {

inline constexpr std::uint32_t kPortMax = 65535;
inline constexpr char kForm[] = "an IPv6 number in brackets";

const char* take_host(std::string_view* rest, std::string* out_host);
Status resolve(const Address& address, bool may_wait, std::vector<Place>* out_places);
std::string host_for_clients(const Address& address);
std::uint32_t port_of(const Place& place);
bool is_loopback(const Place& place);
// "127.0.0.1:5555", "[::1]:5555".
std::string text_of(const Place& place);

}  // namespace lwmq::sockets::ip
