#include <fmt/format.h>

#include "causes/report.h"
#include "text/source_lines.h"
#include "text/table.h"
#include "text/terminal.h"
#include "text/utf8.h"

namespace shanty {
namespace {

constexpr size_t kIndent = 4;

// "    why: text", wrapped below the text.
std::string labelled(std::string_view label, const std::string& text, const FindingStyle& style) {
  const size_t width = style.width > 2 * kIndent ? style.width - kIndent : 0;
  const std::string rows =
      format_table({.header = {}, .rows = {{std::string(label), text}}, .right_aligned = {}},
                   {.width = width, .color = false});
  std::string out;
  for (size_t at = 0; at < rows.size();) {
    const size_t end = rows.find('\n', at);
    out += std::string(kIndent, ' ') + rows.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return out;
}

std::string evidence_line(const Evidence& evidence) {
  const std::string place =
      evidence.line == 0 ? evidence.file : fmt::format("{}:{}", evidence.file, evidence.line);
  return fmt::format("    {}: {}\n", printable(place), printable(evidence.text));
}

}  // namespace

std::string findings_text(std::span<const Finding> findings, const SourceOf& source,
                          FindingStyle style) {
  std::string out;
  std::string file;  // the one whose lines are at hand: findings of one stand together
  SourceLines lines;
  for (Finding finding : findings) {
    complete(finding);
    if (finding.file != file) {
      file = finding.file;
      lines = SourceLines(source(file));
    }
    const Diagnostic diagnostic{.severity = finding.severity,
                                .file = finding.file,
                                .line = finding.line,
                                .column = finding.column,
                                .message = fmt::format("{} [{}]", finding.message, finding.code),
                                .hint = ""};
    out += format_diagnostic(diagnostic, lines, {.color = style.color, .show_source = true});
    for (const Evidence& evidence : finding.evidence) out += evidence_line(evidence);
    if (!finding.why.empty()) out += labelled("why:", finding.why, style);
    for (const std::string& fix : finding.fix) out += labelled("fix:", fix, style);
  }
  return out;
}

}  // namespace shanty
