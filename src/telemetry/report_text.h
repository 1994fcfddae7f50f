#pragma once

#include <string>

#include "telemetry/report.h"

namespace shanty {

struct ReportRenderOptions {
  int width = 80;  // at least kMinReportWidth is used
  bool colour = false;
  bool utf8 = false;
};
inline constexpr int kMinReportWidth = 40;
inline constexpr size_t kMaxShownFailures = 4;
inline constexpr size_t kMaxShownNotes = 3;

// The report for people, about 20 lines. Every line ends with a newline.
std::string render_report(const Report& report, const ReportRenderOptions& options);

}  // namespace shanty
