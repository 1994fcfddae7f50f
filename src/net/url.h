#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/secret.h"

namespace shanty::net {

// "scheme://[user[:password]@]host[:port][/path]". No query, no fragment.
struct Url {
  std::string scheme;    // lower case
  SecretText user_info;  // "user:password" with its escapes undone
  std::string host;      // without brackets
  uint16_t port = 0;     // the scheme's where none is told: http 80, https 443, socks5 1080
  std::string path;      // "" or "/...", without a slash at the end
};

// Errors never show what stands before an "@".
Result<Url> parse_url(std::string_view text);

// "a%20b" for "a b": all but letters, digits and -._~ is escaped.
std::string percent_encode(std::string_view text);

}  // namespace shanty::net
