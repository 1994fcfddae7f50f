#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shanty {

enum class Severity { kError, kWarning, kNote };

// One thing to say about one place of a text the user wrote. Lines and columns count from 1;
// columns are characters. Line 0 means the whole file.
struct Diagnostic {
  Severity severity = Severity::kError;
  std::string file;
  int line = 0;
  int column = 0;
  std::string message;  // one sentence, lower case, no full stop
  std::string hint;     // what to do, or empty

  friend bool operator==(const Diagnostic&, const Diagnostic&) = default;
};

struct DiagnosticStyle {
  bool color = false;
  bool show_source = true;
};

// `job.yaml:7:9: unknown key "x", did you mean "y"?`, warnings and notes marked as such.
std::string format_diagnostic(const Diagnostic& diagnostic);

// Each diagnostic, with its line of `source` and a caret below where it has a place, then its
// hint. Ends with a newline unless there is nothing to say.
std::string format_diagnostics(std::span<const Diagnostic> diagnostics, std::string_view source,
                               DiagnosticStyle style);

bool has_errors(std::span<const Diagnostic> diagnostics);

// In reading order; keeps the first `limit` and says how many were left out.
void sort_and_limit(std::vector<Diagnostic>& diagnostics, size_t limit);

// The candidate that `word` most likely stands for (swapped, missing, wrong or extra letters,
// other case, dashes for underscores), or an empty view when none is close.
std::string_view nearest_key(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace shanty
