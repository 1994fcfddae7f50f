#include "text/diagnostic.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "text/source_lines.h"
#include "text/utf8.h"

namespace shanty {
namespace {

constexpr size_t kMaxSourceColumns = 120;
constexpr std::string_view kRed = "\x1b[1;31m";
constexpr std::string_view kYellow = "\x1b[1;33m";
constexpr std::string_view kCyan = "\x1b[36m";
constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kReset = "\x1b[0m";

std::string_view severity_prefix(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "";
    case Severity::kWarning:
      return "warning: ";
    case Severity::kNote:
      return "note: ";
  }
  return "";
}

std::string_view severity_color(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return kRed;
    case Severity::kWarning:
      return kYellow;
    case Severity::kNote:
      return kCyan;
  }
  return "";
}

std::string place_of(const Diagnostic& diagnostic) {
  if (diagnostic.line == 0) return diagnostic.file + ": ";
  return fmt::format("{}:{}:{}: ", diagnostic.file, diagnostic.line, diagnostic.column);
}

size_t character_offset(std::string_view text, size_t characters) {
  size_t at = 0;
  for (; at < text.size(); ++at) {
    const bool starts = (static_cast<unsigned char>(text[at]) & 0xc0) != 0x80;
    if (starts && characters-- == 0) break;
  }
  return at;
}

// The line around the column with a caret below; a long line is cut so that the caret shows.
std::string excerpt(std::string_view line, int column, DiagnosticStyle style) {
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
  std::string_view before = line.substr(0, character_offset(line, static_cast<size_t>(column - 1)));
  if (before.size() > kMaxSourceColumns / 2) {
    const size_t cut = before.size() - kMaxSourceColumns / 2;
    line.remove_prefix(cut);
    before.remove_prefix(cut);
  }
  const std::string shown{prefix_of_width(printable(line), kMaxSourceColumns)};
  const std::string indent(display_width(printable(before)), ' ');
  return fmt::format("    {}\n    {}{}^{}\n", shown, indent, style.color ? kBold : "",
                     style.color ? kReset : "");
}

// Edit distance in which a swap of neighbours costs one (optimal string alignment).
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> two_back;
  std::vector<size_t> back(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) back[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({back[j] + 1, row[j - 1] + 1, back[j - 1] + change});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], two_back[j - 2] + 1);
    }
    two_back = back;
    std::swap(back, row);
  }
  return back[b.size()];
}

std::string normalized(std::string_view word) {
  std::string out;
  for (char c : word) {
    if (c == '-') c = '_';
    out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

}  // namespace

std::string format_diagnostic(const Diagnostic& diagnostic) {
  return place_of(diagnostic) + std::string(severity_prefix(diagnostic.severity)) +
         diagnostic.message;
}

SourceLines::SourceLines(std::string_view text) : text_(text), starts_{0} {
  for (size_t at = text.find('\n'); at != text.npos; at = text.find('\n', at + 1)) {
    starts_.push_back(at + 1);
  }
}

std::optional<std::string_view> SourceLines::line(int number) const {
  const auto index = static_cast<size_t>(std::max(number, 0));
  if (index < 1 || index > starts_.size()) return {};
  const size_t start = starts_[index - 1];
  return text_.substr(start, index < starts_.size() ? starts_[index] - start : text_.npos);
}

std::string format_diagnostic(const Diagnostic& diagnostic, const SourceLines& source,
                              DiagnosticStyle style) {
  const std::string_view color = style.color ? severity_color(diagnostic.severity) : "";
  std::string out = fmt::format(
      "{}{}{}{}{}{}{}\n", style.color ? kBold : "", place_of(diagnostic), style.color ? kReset : "",
      color, severity_prefix(diagnostic.severity), diagnostic.message, style.color ? kReset : "");
  const auto line = source.line(diagnostic.line);
  if (style.show_source && line && diagnostic.column >= 1)
    out += excerpt(*line, diagnostic.column, style);
  if (!diagnostic.hint.empty()) out += fmt::format("    hint: {}\n", diagnostic.hint);
  return out;
}

std::string format_diagnostics(std::span<const Diagnostic> diagnostics, std::string_view source,
                               DiagnosticStyle style) {
  const SourceLines lines(source);
  std::string out;
  for (const Diagnostic& diagnostic : diagnostics)
    out += format_diagnostic(diagnostic, lines, style);
  return out;
}

bool has_errors(std::span<const Diagnostic> diagnostics) {
  return std::any_of(diagnostics.begin(), diagnostics.end(),
                     [](const Diagnostic& d) { return d.severity == Severity::kError; });
}

void sort_and_limit(std::vector<Diagnostic>& diagnostics, size_t limit) {
  std::sort(diagnostics.begin(), diagnostics.end(), [](const Diagnostic& a, const Diagnostic& b) {
    return std::tie(a.line, a.column, a.message) < std::tie(b.line, b.column, b.message);
  });
  if (diagnostics.size() <= limit) return;
  const size_t left_out = diagnostics.size() - limit;
  const std::string file = diagnostics.front().file;
  diagnostics.resize(limit);
  // An error, so that the file stays refused even when all of its errors were left out.
  diagnostics.push_back({.severity = Severity::kError,
                         .file = file,
                         .message = fmt::format("{} more problems are not shown", left_out)});
}

std::string_view nearest_key(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr size_t kMaxWordBytes = 64;
  if (word.empty() || word.size() > kMaxWordBytes) return {};
  const std::string wanted = normalized(word);
  std::string_view best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  for (std::string_view candidate : candidates) {
    const size_t distance = edit_distance(wanted, normalized(candidate));
    if (distance >= best_distance) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

}  // namespace shanty
