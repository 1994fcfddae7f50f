#include "net/proxy_choice.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "net/address.h"
#include "os/process.h"

namespace shanty::net {
namespace {

struct Address {
  std::array<unsigned char, 16> bytes{};
  size_t bits = 0;  // 32 or 128; 0: no address
};

Address address_of(const std::string& text) {
  Address address;
  if (inet_pton(AF_INET, text.c_str(), address.bytes.data()) == 1) address.bits = 32;
  if (address.bits == 0 && inet_pton(AF_INET6, text.c_str(), address.bytes.data()) == 1) {
    address.bits = 128;
  }
  return address;
}

bool is_in_network(const Address& address, const std::string& network) {
  const size_t slash = network.find('/');
  const Address base = address_of(network.substr(0, slash));
  if (address.bits == 0 || base.bits != address.bits) return false;
  size_t length = base.bits;
  if (slash != std::string::npos) {
    const char* end = network.data() + network.size();
    const auto parsed = std::from_chars(network.data() + slash + 1, end, length);
    if (parsed.ec != std::errc() || parsed.ptr != end || length > base.bits) return false;
  }
  for (size_t bit = 0; bit < length; ++bit) {
    const int mask = 0x80 >> (bit % 8);
    if (((address.bytes[bit / 8] ^ base.bytes[bit / 8]) & mask) != 0) return false;
  }
  return true;
}

bool is_named(std::string_view entry, const std::string& host, uint16_t port) {
  if (entry == "*") return true;
  std::string name(entry);
  if (is_in_network(address_of(host), name)) return true;
  const auto split = split_host_port(entry, port);
  if (split.ok()) {
    if (split->port != port) return false;
    name = split->host;
  }
  if (name == host || is_in_network(address_of(host), name)) return true;
  if (name.starts_with("*.")) name.erase(0, 1);
  if (!name.starts_with('.')) name.insert(0, 1, '.');
  return host.ends_with(name);
}

std::string variable(const std::vector<std::string>& env, std::string name) {
  const std::string* found = find_variable(env, name);
  const size_t skip = name.size() + 1;
  if (found == nullptr || found->size() == skip) {
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    found = find_variable(env, name);
  }
  return found == nullptr ? "" : found->substr(skip);
}

}  // namespace

Result<HttpProxy> parse_proxy(std::string_view text) {
  const bool has_scheme = text.find("://") != std::string_view::npos;
  const Url url = TRY(parse_url(has_scheme ? std::string(text) : "http://" + std::string(text)));
  HttpProxy proxy{.host = url.host, .port = url.port, .user_info = url.user_info};
  if (url.scheme == "socks5" || url.scheme == "socks5h") {
    proxy.kind = HttpProxy::Kind::kSocks5;
  } else if (url.scheme != "http") {
    return Error{"a proxy with the scheme \"" + url.scheme +
                 "\" cannot be used: http:// and socks5:// can"};
  }
  return proxy;
}

bool is_exempt(std::string_view no_proxy, const std::string& host, uint16_t port) {
  while (!no_proxy.empty()) {
    const size_t comma = no_proxy.find(',');
    std::string_view entry = no_proxy.substr(0, comma);
    no_proxy = comma == std::string_view::npos ? std::string_view() : no_proxy.substr(comma + 1);
    while (entry.starts_with(' ')) entry.remove_prefix(1);
    while (entry.ends_with(' ')) entry.remove_suffix(1);
    if (!entry.empty() && is_named(entry, host, port)) return true;
  }
  return false;
}

Result<std::optional<HttpProxy>> proxy_of_environment(const std::vector<std::string>& env,
                                                      const Url& server) {
  const char* name = server.scheme == "https" ? "HTTPS_PROXY" : "HTTP_PROXY";
  const std::string url = variable(env, name);
  const bool here = server.host == "localhost" || server.host == "::1" ||
                    is_exempt("127.0.0.0/8", server.host, server.port);
  if (url.empty() || here || is_exempt(variable(env, "NO_PROXY"), server.host, server.port)) {
    return std::optional<HttpProxy>();
  }
  return std::optional(TRY(parse_proxy(url).context(std::string("reading ") + name)));
}

}  // namespace shanty::net
