#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "causes/finding.h"

namespace shanty {

// The text of a file that findings name, or empty when it is not to be had.
using SourceOf = std::function<std::string_view(const std::string& file)>;

struct FindingStyle {
  bool color = false;
  size_t width = 0;  // columns; 0: never wrap
};

// Fills what is empty (why, fix) from the catalogue.
void complete(Finding& finding);

// `file:line:column: warning: message [CODE]`, the line with a caret, why and fix below.
std::string findings_text(std::span<const Finding> findings, const SourceOf& source,
                          FindingStyle style = {});

// SARIF 2.1.0, with a rule for each code that occurs and a fix for each that has edits.
std::string findings_sarif(std::span<const Finding> findings, const SourceOf& source);

// Workflow commands of GitHub: `::warning file=...,line=...,title=CODE::message`.
std::string findings_github(std::span<const Finding> findings);

// `text` with the edits of all `findings` of one file. Of edits that overlap the first one counts.
std::string apply_edits(std::string_view text, std::span<const Finding> findings);

}  // namespace shanty
