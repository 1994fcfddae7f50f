#include "text/words.h"

#include <charconv>

#include <fmt/format.h>

namespace shanty {

std::string counted(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string_view trimmed(std::string_view text, std::string_view blanks) {
  const size_t begin = text.find_first_not_of(blanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

std::vector<int> numbers_in(std::string_view list, size_t limit) {
  std::vector<int> out;
  const char* at = list.data();
  const char* const end = at + list.size();
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  enum { kAlone, kUpTo, kNegative } sign = kAlone;
  while (at < end && out.size() < limit) {
    if (!is_digit(*at)) {
      const bool after_number = at > list.data() && is_digit(at[-1]);
      sign = *at != '-' ? kAlone : after_number ? kUpTo : kNegative;
      ++at;
      continue;
    }
    int number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    at = next;
    if (error != std::errc() || sign == kNegative) continue;
    int last = sign == kUpTo && !out.empty() ? out.back() : number - 1;
    while (last < number && out.size() < limit) out.push_back(++last);
  }
  return out;
}

}  // namespace shanty
