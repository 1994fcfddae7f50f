#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/fd.h"

namespace shanty::net {

struct HostPort {
  std::string host;
  uint16_t port = 0;

  friend bool operator==(const HostPort&, const HostPort&) = default;
};

// "host", "host:29400", "1.2.3.4:29400", "[::1]:29400", "::1". An absent port is `default_port`.
// Errors: no host, a port outside 0..65535, an unclosed bracket.
Result<HostPort> split_host_port(std::string_view text, uint16_t default_port);
// "host:port", with brackets around an IPv6 address.
std::string join_host_port(const std::string& host, uint16_t port);

// The numeric addresses of a name, in the resolver's order, without repeats. Asks DNS for what is
// neither numeric nor in /etc/hosts, so it may block for seconds.
Result<std::vector<std::string>> resolve(const std::string& host);

// "localhost" or a numeric loopback address. By the words alone, so that all nodes that are given
// the same host agree on it: many machines' /etc/hosts (Debian's 127.0.1.1) resolve their own name,
// which the others reach them by, to a loopback address.
bool is_loopback(const std::string& host);
// True when an address of `host` belongs to an interface of this machine, loopback included. May
// block as resolve() does.
bool is_local_address(const std::string& host);

// A TCP port of this machine that the kernel gives to nobody else while `socket` is open. A process
// that sets SO_REUSEADDR can bind and listen on it meanwhile (torch's TCPStore does).
struct ReservedPort {
  Fd socket;
  uint16_t port = 0;
};

// Binds, without listening, the wildcard address: IPv6 and IPv4 together where there is IPv6,
// else IPv4.
Result<ReservedPort> reserve_port();
Result<ReservedPort> reserve_ipv4_port();

}  // namespace shanty::net
