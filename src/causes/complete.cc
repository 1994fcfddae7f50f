#include <string>

#include "causes/catalogue.h"
#include "causes/report.h"

namespace shanty {
namespace {

// The first paragraph of a section, as one line.
std::string first_paragraph(std::string_view section) {
  std::string out(section.substr(0, section.find("\n\n")));
  for (char& c : out) {
    if (c == '\n') c = ' ';
  }
  return out;
}

}  // namespace

void complete(Finding& finding) {
  const Cause* cause = find_cause(finding.code);
  if (cause == nullptr) return;
  if (finding.why.empty()) finding.why = first_paragraph(cause->why);
  if (finding.fix.empty()) finding.fix = {first_paragraph(cause->fix)};
}

}  // namespace shanty
