#include "causes/catalogue.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "causes/finding.h"
#include "causes/pages.h"
#include "text/words.h"

namespace shanty {
namespace {

constexpr std::string_view kBlanks = " \n";
constexpr size_t kWhySection = 2;
constexpr size_t kFixSection = 3;

std::string_view next_line(std::string_view& text) {
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == text.npos ? text.size() : end + 1);
  return line;
}

bool is_code(std::string_view text) {
  const size_t letters =
      std::min(text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"), text.size());
  if (letters != text.size() || text.size() < 5) return false;
  return text.substr(text.size() - 3).find_first_not_of("0123456789") == text.npos;
}

std::optional<Severity> severity_of(std::string_view name) {
  for (const Severity severity : {Severity::kError, Severity::kWarning, Severity::kNote}) {
    if (name == severity_name(severity)) return severity;
  }
  return std::nullopt;
}

// "# CODE: title", then "severity: ..." and perhaps "class: ...".
Status parse_head(std::string_view& text, Cause& cause) {
  std::string_view line = next_line(text);
  const size_t colon = line.find(": ");
  if (!line.starts_with("# ") || colon == line.npos || !is_code(line.substr(2, colon - 2))) {
    return Error{"a page begins with \"# CODE: title\""};
  }
  cause.code = line.substr(2, colon - 2);
  cause.title = line.substr(colon + 2);
  line = next_line(text);
  constexpr std::string_view kSeverity = "severity: ";
  const auto severity =
      line.starts_with(kSeverity) ? severity_of(line.substr(kSeverity.size())) : std::nullopt;
  if (!severity) {
    return Error{cause.code + ": the second line is \"severity: error, warning or info\""};
  }
  cause.severity = *severity;
  constexpr std::string_view kClass = "class: ";
  if (text.starts_with(kClass)) cause.failure_class = next_line(text).substr(kClass.size());
  return {};
}

// The text below "## title", which must be the next heading of `text`.
Result<std::string_view> section(std::string_view& text, std::string_view title) {
  const std::string heading = fmt::format("## {}\n", title);
  text = trimmed(text, kBlanks);
  if (!text.starts_with(heading)) {
    return Error{fmt::format("where \"## {}\" should stand there is \"{}\"", title,
                             text.substr(0, text.find('\n')))};
  }
  text.remove_prefix(heading.size());
  const size_t end = text.find("\n## ");
  const std::string_view body = trimmed(text.substr(0, end), kBlanks);
  if (body.empty()) return Error{fmt::format("the section \"{}\" is empty", title)};
  text.remove_prefix(end == text.npos ? text.size() : end + 1);
  return body;
}

std::vector<Cause> read_all(std::span<const std::string_view> pages, Language language) {
  std::vector<Cause> out;
  for (const std::string_view page : pages) {
    auto cause = parse_cause(page, language);
    CHECK(cause.ok());
    out.push_back(std::move(*cause));
  }
  std::sort(out.begin(), out.end(), [](const Cause& a, const Cause& b) { return a.code < b.code; });
  return out;
}

}  // namespace

Language language_of(std::string_view locale) {
  return locale.starts_with("zh") ? Language::kChinese : Language::kEnglish;
}

Result<Cause> parse_cause(std::string_view text, Language language) {
  Cause cause;
  cause.page = text;
  TRY_STATUS(parse_head(text, cause));
  const auto& titles = kSections[static_cast<size_t>(language)];
  for (size_t i = 0; i < std::size(titles); ++i) {
    const std::string_view body = TRY(section(text, titles[i]).context(cause.code));
    if (i == kWhySection) cause.why = body;
    if (i == kFixSection) cause.fix = body;
  }
  if (!trimmed(text, kBlanks).empty())
    return Error{cause.code + ": there is text after the last section"};
  return cause;
}

std::span<const Cause> causes(Language language) {
  static const std::vector<Cause> english =
      read_all({kPages_en, kPageCount_en}, Language::kEnglish);
  static const std::vector<Cause> chinese =
      read_all({kPages_zh, kPageCount_zh}, Language::kChinese);
  return language == Language::kEnglish ? english : chinese;
}

const Cause* find_cause(std::string_view code, Language language) {
  std::string upper(code);
  for (char& c : upper) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  const auto all = causes(language);
  const auto found =
      std::lower_bound(all.begin(), all.end(), upper,
                       [](const Cause& cause, const std::string& c) { return cause.code < c; });
  return found != all.end() && found->code == upper ? &*found : nullptr;
}

}  // namespace shanty
