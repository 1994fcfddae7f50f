#include "cli/job_file.h"

#include <cstdio>

#include <unistd.h>

#include <fmt/format.h>

#include "job/parse.h"
#include "text/terminal.h"

namespace shanty {

std::optional<Job> load_job_or_report(const std::string& path) {
  const auto text = read_job_file(path);
  if (!text.ok()) {
    fmt::print(stderr, "shanty: {}\n", text.error().message);
    return std::nullopt;
  }
  ParsedJob parsed = parse_job(*text, path);
  const DiagnosticStyle style{.color = terminal_traits(STDERR_FILENO).colour};
  fmt::print(stderr, "{}", format_diagnostics(parsed.diagnostics, *text, style));
  if (!parsed.ok()) return std::nullopt;
  return std::move(parsed.job);
}

}  // namespace shanty
