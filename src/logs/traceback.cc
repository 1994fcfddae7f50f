#include "logs/traceback.h"

#include <fmt/format.h>

namespace shanty {
namespace {

constexpr size_t kMaxLinesBelow = 12;  // the line of code, its markers, lines of other ranks
constexpr size_t kMaxLine = 4096;      // bytes of a line that are looked at

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }

size_t after_digits(std::string_view text, size_t at) {
  while (at < text.size() && is_digit(text[at])) ++at;
  return at;
}

// What follows in `line` after the same words as `front`; numbers (times, ranks) may differ.
std::optional<std::string_view> after_front(std::string_view front, std::string_view line) {
  size_t at = 0;
  for (size_t i = 0; i < front.size();) {
    if (at >= line.size()) return std::nullopt;
    if (is_digit(front[i]) && is_digit(line[at])) {
      i = after_digits(front, i);
      at = after_digits(line, at);
    } else if (front[i++] != line[at++]) {
      return std::nullopt;
    }
  }
  return line.substr(at);
}

bool has_hump(std::string_view name) {
  for (size_t i = 1; i < name.size(); ++i) {
    if (is_lower(name[i - 1]) && is_upper(name[i])) return true;
  }
  return false;
}

// Python prints the module of all but its own exceptions.
bool is_named_like_exception(std::string_view name) {
  const size_t dot = name.rfind('.');
  const std::string_view last = dot == name.npos ? name : name.substr(dot + 1);
  if (last.empty()) return false;
  if (last.ends_with("Error") || last.ends_with("Exception")) return true;
  if (dot != name.npos) {
    return is_upper(last[0]) || last.ends_with("error") || last.ends_with("timeout");
  }
  return is_upper(last[0]) && has_hump(last);
}

bool is_name_part(char c) {
  return is_upper(c) || is_lower(c) || is_digit(c) || c == '_' || c == '.';
}

bool read_message(std::string_view line, Raised& out) {
  size_t size = 0;
  while (size < line.size() && is_name_part(line[size])) ++size;
  const std::string_view name = line.substr(0, size);
  const std::string_view rest = line.substr(size);
  if (name.empty() || is_digit(name[0])) return false;
  if (!rest.empty() && rest != ":" && !rest.starts_with(": ")) return false;
  if (!is_named_like_exception(name)) return false;
  out.message = line;
  out.type = name.substr(name.rfind('.') + 1);
  out.what = rest.size() > 2 ? rest.substr(2) : std::string_view{};
  return true;
}

// 'File "/a/b/train.py", line 7, in step' as "train.py:7 in step".
std::string place_of(std::string_view frame) {
  const size_t quote = frame.find('"');
  const size_t close = frame.find('"', quote + 1);
  if (close == frame.npos) return "";
  std::string_view file = frame.substr(quote + 1, close - quote - 1);
  file.remove_prefix(file.find_last_of("/\\") + 1);
  constexpr std::string_view kLine = ", line ";
  std::string_view rest = frame.substr(close + 1);
  if (!rest.starts_with(kLine)) return "";
  rest.remove_prefix(kLine.size());
  const size_t digits = after_digits(rest, 0);
  const std::string_view where = rest.substr(digits);
  return fmt::format("{}:{}{}", file, rest.substr(0, digits),
                     where.starts_with(", in ") ? where.substr(1) : std::string_view{});
}

std::string_view without_return(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line.substr(0, kMaxLine);
}

}  // namespace

std::optional<Raised> raised_below(std::string_view text, size_t begin, size_t end) {
  const std::string_view frame = without_return(text.substr(begin, end - begin));
  const size_t at = frame.find(kFrameNeedle);
  if (at == frame.npos) return std::nullopt;
  const std::string_view front = frame.substr(0, at);
  Raised out;
  for (size_t i = 1; i <= kMaxLinesBelow && end < text.size(); ++i) {
    begin = std::min(text.find('\n', end), text.size() - 1) + 1;
    end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = without_return(text.substr(begin, end - begin));
    if (line.find(kFrameNeedle) != line.npos) return std::nullopt;
    const auto rest = after_front(front, line);
    if (!rest || !read_message(*rest, out)) continue;
    out.begin = begin;
    out.end = end;
    out.lines_below = i;
    out.at = place_of(frame.substr(at));
    return out;
  }
  return std::nullopt;
}

}  // namespace shanty
