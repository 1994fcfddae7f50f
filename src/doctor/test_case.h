#pragma once

#include <string>

#include "doctor/diagnose.h"
#include "doctor/readers/readers.h"
#include "logs/scan.h"

namespace shanty {

// The first finding of `text`; with no code where there is none above info.
inline Finding first_of(const std::string& text) {
  LogScanner scanner;
  const auto source = memory_source(text);
  scanner.scan(
      *source,
      {.name = "job.log", .around_unix_ns = 1'764'417'600'000'000'000, .time_at = nullptr});
  CaseFiles files;
  files.logs = scanner.finish();
  if (const InputKind kind = sniff_input("job.log", text); kind != InputKind::kLog) {
    files.inputs.push_back({.name = "job.log", .kind = kind, .path = "", .read = [text](size_t) {
                              return Result<std::string>(text);
                            }});
  }
  const Diagnosis diagnosis = diagnose(files);
  if (diagnosis.findings.empty() || diagnosis.findings[0].severity == Severity::kNote) return {};
  return diagnosis.findings[0];
}

inline std::string class_of(const std::string& text) { return first_of(text).failure_class; }

}  // namespace shanty
