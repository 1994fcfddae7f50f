#include "net/url.h"

#include <cctype>
#include <optional>

#include "net/address.h"

namespace shanty::net {
namespace {

constexpr std::string_view kHexDigits = "0123456789ABCDEF";

bool is_letter_or_digit(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

bool has_blank_or_control(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= ' ' || c == 127) return true;
  }
  return false;
}

uint16_t default_port(std::string_view scheme) {
  if (scheme == "http") return 80;
  if (scheme == "https") return 443;
  return scheme.starts_with("socks5") ? 1080 : 0;
}

int hex_value(char c) {
  const size_t at = kHexDigits.find(static_cast<char>(std::toupper(static_cast<unsigned char>(c))));
  return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_value(text[i + 1]);
    const int low = hex_value(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

}  // namespace

Result<Url> parse_url(std::string_view text) {
  const size_t at = text.rfind('@');
  const size_t separator = text.find("://");
  const std::string shown(at == std::string_view::npos ? text : text.substr(at + 1));
  if (separator == std::string_view::npos || separator == 0) {
    return Error{"\"" + shown + "\" is no URL: expected \"https://host:port\""};
  }
  Url url;
  for (const char c : text.substr(0, separator)) {
    url.scheme += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  std::string_view rest = text.substr(separator + 3);
  const size_t slash = rest.find('/');
  if (slash != std::string_view::npos) {
    url.path = rest.substr(slash);
    rest = rest.substr(0, slash);
  }
  while (url.path.ends_with('/')) url.path.pop_back();
  const size_t user_end = rest.rfind('@');
  if (user_end != std::string_view::npos) {
    auto user = percent_decode(rest.substr(0, user_end));
    if (!user) return Error{"the user in the URL of \"" + shown + "\" has a broken % escape"};
    url.user_info = SecretText(std::move(*user));
    rest = rest.substr(user_end + 1);
  }
  if (has_blank_or_control(rest) || has_blank_or_control(url.path) ||
      url.path.find_first_of("?#") != std::string::npos ||
      rest.find_first_of("?#") != std::string_view::npos) {
    return Error{"\"" + shown + "\" has characters that a server's URL cannot have"};
  }
  const HostPort host = TRY(split_host_port(rest, default_port(url.scheme)));
  if (host.port == 0) return Error{"\"" + shown + "\" names no port"};
  url.host = host.host;
  url.port = host.port;
  return url;
}

std::string percent_encode(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (is_letter_or_digit(c) || c == '-' || c == '.' || c == '_' || c == '~') {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kHexDigits[byte >> 4];
    out += kHexDigits[byte & 15];
  }
  return out;
}

}  // namespace shanty::net
