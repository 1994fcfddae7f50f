#include <fmt/format.h>

#include "lint/case_questions.h"

namespace shanty::lint {
namespace {

void not_readable(const JobSource& job, Report& report) {
  for (const Diagnostic& diagnostic : job.parsed.diagnostics) {
    Finding& finding =
        report.add("RUN004", Place{diagnostic.line, diagnostic.column}, diagnostic.message);
    finding.severity = diagnostic.severity;
    if (!diagnostic.hint.empty()) finding.fix = {diagnostic.hint};
  }
}

constexpr Rule kRules[] = {
    {"RUN004", JobRule{not_readable}},
};

}  // namespace

extern const std::span<const Rule> kJobFileRules = kRules;

}  // namespace shanty::lint
