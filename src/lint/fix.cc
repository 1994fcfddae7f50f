#include "lint/fix.h"

#include <algorithm>
#include <map>

#include "causes/report.h"
#include "lint/lint.h"

namespace shanty::lint {
namespace {

// Insertions at one place count as overlapping: each may make the other one needless.
bool overlap(const Edit& a, const Edit& b) {
  return a.begin == b.begin || (a.begin < b.end && b.begin < a.end);
}

bool clashes(const Finding& finding, const std::vector<Finding>& chosen) {
  return std::any_of(chosen.begin(), chosen.end(), [&](const Finding& other) {
    return std::any_of(finding.edits.begin(), finding.edits.end(), [&](const Edit& edit) {
      return std::any_of(other.edits.begin(), other.edits.end(),
                         [&](const Edit& taken) { return overlap(edit, taken); });
    });
  });
}

using ByFile = std::map<std::string, std::vector<Finding>>;

ByFile choose(std::vector<Finding> findings) {
  ByFile chosen;
  for (Finding& finding : findings) {
    if (finding.edits.empty()) continue;
    std::vector<Finding>& of_file = chosen[finding.file];
    if (!clashes(finding, of_file)) of_file.push_back(std::move(finding));
  }
  return chosen;
}

}  // namespace

std::vector<Finding> fix_sources(std::vector<Source>& sources) {
  std::vector<Finding> settled;
  for (int round = 0; round < kMaxFixRounds; ++round) {
    ByFile chosen = choose(lint(sources));
    bool has_changed = false;
    for (Source& source : sources) {
      const auto of_file = chosen.find(source.name);
      if (of_file == chosen.end()) continue;
      std::string text = apply_edits(source.text, of_file->second);
      if (text == source.text) continue;
      source.text = std::move(text);
      has_changed = true;
      for (Finding& finding : of_file->second) settled.push_back(std::move(finding));
    }
    if (!has_changed) break;
  }
  return settled;
}

}  // namespace shanty::lint
