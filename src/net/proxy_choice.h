#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/http_connection.h"
#include "net/url.h"

namespace shanty::net {

// "http://[user:password@]host:port" or "socks5://...". Fails for other schemes.
Result<HttpProxy> parse_proxy(std::string_view url);

// The proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY ("NAME=value" in `env`, either case) give for
// `server`. Nothing for this machine's own names.
Result<std::optional<HttpProxy>> proxy_of_environment(const std::vector<std::string>& env,
                                                      const Url& server);

// True when NO_PROXY's list names the host: "*", "example.com" and ".example.com" (with what is
// below), "10.0.0.0/8", "host:port".
bool is_exempt(std::string_view no_proxy, const std::string& host, uint16_t port);

}  // namespace shanty::net
