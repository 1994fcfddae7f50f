#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/diagnostic.h"

namespace shanty {

// The lines of a text, found once for all that is said about it. Borrows the text.
class SourceLines {
 public:
  explicit SourceLines(std::string_view text = {});
  // The line of that number with its end; nothing where there is none.
  std::optional<std::string_view> line(int number) const;

 private:
  std::string_view text_;
  std::vector<size_t> starts_;
};

// One diagnostic, with its line of the source and a caret below where it has a place, then its
// hint. Ends with a newline.
std::string format_diagnostic(const Diagnostic& diagnostic, const SourceLines& source,
                              DiagnosticStyle style);

}  // namespace shanty
