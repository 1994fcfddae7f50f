#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "causes/finding.h"
#include "lint/source.h"

namespace shanty::lint {

// A comment `# shanty: ignore SHM001,GPU004 the reason`. It holds for its own line, and where it
// stands alone for the next line that is no comment.
struct Ignore {
  int line = 0;  // of the comment
  int column = 0;
  int applies_to = 0;
  std::vector<std::string> codes;
  bool has_reason = false;
};

std::vector<Ignore> find_ignores(std::string_view text);

// Takes away what the comments of the source ignore; adds a finding for each comment that gives no
// reason or names no cause.
void apply_ignores(const Source& source, std::vector<Finding>& findings);

}  // namespace shanty::lint
