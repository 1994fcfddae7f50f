#include "text/terminal.h"

#include <cstdlib>

#include <sys/ioctl.h>
#include <unistd.h>

#include "text/utf8.h"

namespace shanty {
namespace {

constexpr int kDefaultWidth = 80;
constexpr int kMinWidth = 20;

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

// The first of the three that is set decides, as in setlocale(3).
bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view value = variable(name);
    if (value.empty()) continue;
    for (const char* spelling : {"UTF-8", "utf8", "UTF8", "utf-8"}) {
      if (value.find(spelling) != std::string_view::npos) return true;
    }
    return false;
  }
  return false;
}

// The length of the escape sequence (ESC [ ... letter) at the start of `text`, 0 = none.
size_t escape_length(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const size_t end = text.find_first_not_of("0123456789;:", 2);
  return end == std::string_view::npos ? text.size() : end + 1;
}

}  // namespace

TerminalTraits terminal_traits(int fd) {
  TerminalTraits traits;
  traits.width = kDefaultWidth;
  traits.utf8 = locale_is_utf8();
  traits.tty = ::isatty(fd) == 1;
  if (!traits.tty) return traits;
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col >= kMinWidth) traits.width = size.ws_col;
  traits.colour = variable("NO_COLOR").empty() && variable("TERM") != "dumb";
  return traits;
}

std::string cut_to_width(std::string_view text, size_t columns) {
  std::string out;
  while (!text.empty()) {
    const size_t escape = escape_length(text);
    if (escape > 0) {
      out += text.substr(0, escape);
      text.remove_prefix(escape);
      continue;
    }
    const std::string_view plain = text.substr(0, text.find('\x1b', 1));
    const std::string_view fitting = prefix_of_width(plain, columns);
    out += fitting;
    columns -= display_width(fitting);
    // What does not fit is left out, but a colour that was set is still reset behind it.
    text.remove_prefix(plain.size());
    if (fitting.size() < plain.size()) columns = 0;
  }
  return out;
}

std::string styled(std::string_view text, std::string_view style, bool colour) {
  if (!colour) return std::string(text);
  return std::string(style) + std::string(text) + std::string(sgr::kReset);
}

}  // namespace shanty
