#include "lint/ignore.h"

#include <algorithm>

#include <fmt/format.h>

#include "causes/catalogue.h"
#include "lint/report.h"
#include "text/utf8.h"
#include "text/words.h"

namespace shanty::lint {
namespace {

constexpr std::string_view kMark = "shanty: ignore";
constexpr std::string_view kBlank = " \t\r";

bool is_comment_line(std::string_view line) {
  const size_t first = line.find_first_not_of(kBlank);
  return first != line.npos && line[first] == '#';
}

// "SHM001": letters, then digits.
bool looks_like_code(std::string_view word) {
  const size_t digits = word.find_first_of("0123456789");
  return digits != word.npos && digits >= 2 && word.size() == digits + 3;
}

// The codes at the start of `rest`, separated by commas or blanks; what follows is the reason.
void read_codes(std::string_view rest, Ignore& ignore) {
  while (true) {
    rest = rest.substr(std::min(rest.find_first_not_of(" \t,"), rest.size()));
    const std::string_view word = rest.substr(0, rest.find_first_of(" \t,\r:"));
    if (!looks_like_code(word)) break;
    ignore.codes.emplace_back(word);
    rest.remove_prefix(word.size());
  }
  const std::string_view reason = trimmed(rest, kBlank);
  ignore.has_reason = reason.find_first_not_of("-:,.") != reason.npos;
}

}  // namespace

std::vector<Ignore> find_ignores(std::string_view text) {
  std::vector<Ignore> out;
  if (text.find(kMark) == text.npos) return out;
  const TextPlaces places(text);
  const auto lines = static_cast<int>(places.line_count());
  for (int number = 1; number <= lines; ++number) {
    const std::string_view line = places.line(number);
    const size_t at = line.find(kMark);
    const size_t hash = at == line.npos ? line.npos : line.rfind('#', at);
    if (hash == line.npos || !trimmed(line.substr(hash + 1, at - hash - 1), kBlank).empty())
      continue;
    Ignore ignore{.line = number,
                  .column = static_cast<int>(hash) + 1,
                  .applies_to = number,
                  .codes = {},
                  .has_reason = false};
    if (is_comment_line(line)) {
      do {
        ++ignore.applies_to;
      } while (ignore.applies_to < lines && is_comment_line(places.line(ignore.applies_to)));
    }
    read_codes(line.substr(at + kMark.size()), ignore);
    out.push_back(std::move(ignore));
  }
  return out;
}

void apply_ignores(const Source& source, std::vector<Finding>& findings) {
  const std::vector<Ignore> ignores = find_ignores(source.text);
  if (ignores.empty()) return;
  const auto is_ignored = [&](const Finding& finding) {
    return std::any_of(ignores.begin(), ignores.end(), [&](const Ignore& ignore) {
      const bool is_here = ignore.applies_to == std::max(finding.line, 1);
      return is_here && std::find(ignore.codes.begin(), ignore.codes.end(), finding.code) !=
                            ignore.codes.end();
    });
  };
  findings.erase(std::remove_if(findings.begin(), findings.end(), is_ignored), findings.end());
  Report report(source);
  for (const Ignore& ignore : ignores) {
    const Place place{ignore.line, ignore.column};
    if (ignore.codes.empty()) {
      report.add("RUN001", place, "this comment names no code, so it ignores nothing");
    } else if (!ignore.has_reason) {
      report.add("RUN001", place,
                 fmt::format("{} is ignored without a reason", fmt::join(ignore.codes, ", ")));
    }
    for (const std::string& code : ignore.codes) {
      if (find_cause(code) == nullptr)
        report.add("RUN001", place, fmt::format("there is no cause {}", in_quotes(code)));
    }
  }
  for (Finding& finding : report.take()) findings.push_back(std::move(finding));
}

}  // namespace shanty::lint
