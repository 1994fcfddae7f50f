#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "causes/finding.h"
#include "check/fit.h"
#include "check/snapshot.h"

namespace shanty::check {

// The verdict on one workload in one cluster.
struct CheckReport {
  Workload workload;
  Fit fit;
  std::vector<Finding> findings;  // the gravest first, completed from the catalogue
  std::vector<std::string> unread;
  std::string context;
  int64_t now_unix_s = 0;

  // It would start now: there is room, and nothing else stands in its way.
  bool fits() const;
  // Something is worth a look: it does not fit, or there is a warning.
  bool has_problems() const;
};

// Runs the arithmetic and all probes. Pure. The workload's GPU model is matched with what the
// nodes' labels say.
CheckReport evaluate(const Snapshot& snapshot, Workload workload);

// The same for pods that wait: `more` are findings from their own events and conditions.
CheckReport evaluate_pending(const Snapshot& snapshot, Workload workload,
                             std::vector<Finding> more);

// How a report is shown. `width` 0: never wrap.
std::string report_text(const CheckReport& report, bool color, size_t width);
// One JSON object; docs/check.md.
std::string report_json(const CheckReport& report);

}  // namespace shanty::check
