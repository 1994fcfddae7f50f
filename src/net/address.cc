#include "net/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <strings.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>

namespace shanty::net {
namespace {

Result<uint16_t> parse_port(std::string_view digits, std::string_view whole) {
  unsigned port = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, port);
  if (error != std::errc() || stop != end || digits.empty() || port > 65535) {
    return Error{"\"" + std::string(whole) + "\" has the port \"" + std::string(digits) +
                 "\": expected a number from 0 to 65535"};
  }
  return static_cast<uint16_t>(port);
}

Result<HostPort> split_bracketed(std::string_view text, uint16_t default_port) {
  const size_t close = text.find(']');
  if (close == std::string_view::npos) {
    return Error{"\"" + std::string(text) + "\" has no closing bracket"};
  }
  const std::string host(text.substr(1, close - 1));
  const std::string_view rest = text.substr(close + 1);
  if (host.empty() || (!rest.empty() && rest[0] != ':')) {
    return Error{"\"" + std::string(text) + "\" is not an address: expected \"[address]:port\""};
  }
  if (rest.empty()) return HostPort{host, default_port};
  return HostPort{host, TRY(parse_port(rest.substr(1), text))};
}

// The numeric text of an IPv4 or IPv6 socket address, IPv4 also where it is mapped into IPv6.
std::optional<std::string> numeric(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address == nullptr) return std::nullopt;
  if (address->sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, address, sizeof v4);
    return inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
  }
  if (address->sa_family != AF_INET6) return std::nullopt;
  sockaddr_in6 v6;
  std::memcpy(&v6, address, sizeof v6);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    return inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text, sizeof text);
  }
  return inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
}

bool is_loopback_address(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

Result<ReservedPort> bind_any(int family) {
  Fd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return errno_error("cannot open a socket to reserve a port");
  const int on = 1;
  const int off = 0;
  if (setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) {
    return errno_error("cannot set SO_REUSEADDR to reserve a port");
  }
  sockaddr_storage address = {};
  address.ss_family = static_cast<sa_family_t>(family);
  socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (family == AF_INET6 &&
      setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0) {
    return errno_error("cannot clear IPV6_V6ONLY to reserve a port");
  }
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(socket.get(), generic, size) != 0 || getsockname(socket.get(), generic, &size) != 0) {
    return errno_error("cannot reserve a port");
  }
  in_port_t port = 0;  // at the same place in both families
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  std::memcpy(&port, reinterpret_cast<const char*>(&address) + offsetof(sockaddr_in, sin_port),
              sizeof port);
  return ReservedPort{std::move(socket), ntohs(port)};
}

}  // namespace

Result<HostPort> split_host_port(std::string_view text, uint16_t default_port) {
  if (text.starts_with('[')) return split_bracketed(text, default_port);
  const size_t colon = text.find(':');
  const bool bare_ipv6 = colon != std::string_view::npos && text.rfind(':') != colon;
  if (colon == 0 && !bare_ipv6) {
    return Error{"\"" + std::string(text) + "\" has no host: expected \"host:port\""};
  }
  if (text.empty()) return Error{"the host is empty: expected \"host\" or \"host:port\""};
  if (colon == std::string_view::npos || bare_ipv6)
    return HostPort{std::string(text), default_port};
  return HostPort{std::string(text.substr(0, colon)),
                  TRY(parse_port(text.substr(colon + 1), text))};
}

std::string join_host_port(const std::string& host, uint16_t port) {
  const bool ipv6 = host.find(':') != std::string::npos;
  return (ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

namespace {

Result<std::vector<std::string>> look_up(const std::string& host, int flags) {
  if (host.empty()) return Error{"cannot resolve an empty host name"};
  addrinfo hints = {};
  hints.ai_flags = flags;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (code != 0) {
    const std::string why = code == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(code);
    return Error{"cannot resolve the host \"" + host + "\": " + why};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    auto text = numeric(entry->ai_addr);
    if (!text || std::ranges::find(addresses, *text) != addresses.end()) continue;
    addresses.push_back(std::move(*text));
  }
  if (addresses.empty()) return Error{"the host \"" + host + "\" has no IPv4 or IPv6 address"};
  return addresses;
}

}  // namespace

Result<std::vector<std::string>> resolve(const std::string& host) { return look_up(host, 0); }

bool is_loopback(const std::string& host) {
  if (strcasecmp(host.c_str(), "localhost") == 0) return true;
  const auto addresses = look_up(host, AI_NUMERICHOST);
  return addresses.ok() && std::ranges::all_of(*addresses, is_loopback_address);
}

bool is_local_address(const std::string& host) {
  if (strcasecmp(host.c_str(), "localhost") == 0) return true;
  const auto addresses = resolve(host);
  if (!addresses.ok()) return false;
  if (std::ranges::any_of(*addresses, is_loopback_address)) return true;
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owned(found, &freeifaddrs);
  for (const ifaddrs* entry = found; entry != nullptr; entry = entry->ifa_next) {
    const auto text = numeric(entry->ifa_addr);
    if (text && std::ranges::find(*addresses, *text) != addresses->end()) return true;
  }
  return false;
}

Result<ReservedPort> reserve_port() {
  auto both = bind_any(AF_INET6);
  if (both.ok()) return both;
  return reserve_ipv4_port();
}

Result<ReservedPort> reserve_ipv4_port() { return bind_any(AF_INET); }

}  // namespace shanty::net
