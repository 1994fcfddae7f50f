#include <fmt/format.h>

#include "causes/report.h"

namespace shanty {
namespace {

// GitHub's workflow commands end at a line's end; properties also at commas and colons.
std::string escaped(std::string_view text, bool is_property) {
  std::string out;
  for (const char c : text) {
    if (c == '%' || c == '\r' || c == '\n' || (is_property && (c == ':' || c == ','))) {
      out += fmt::format("%{:02X}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out;
}

std::string_view command(Severity severity) {
  return severity == Severity::kNote ? "notice" : severity_name(severity);
}

}  // namespace

std::string findings_github(std::span<const Finding> findings) {
  std::string out;
  for (Finding finding : findings) {
    complete(finding);
    std::string text = finding.message;
    for (const std::string& fix : finding.fix) text += "\n" + fix;
    std::string place = fmt::format("file={}", escaped(finding.file, true));
    if (finding.line > 0) {
      place += fmt::format(",line={},col={}", finding.line, finding.column);
    }
    out += fmt::format("::{} {},title={}::{}\n", command(finding.severity), place, finding.code,
                       escaped(text, false));
  }
  return out;
}

}  // namespace shanty
