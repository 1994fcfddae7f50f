#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "causes/finding.h"
#include "check/fit.h"
#include "check/snapshot.h"
#include "text/words.h"

namespace shanty::check {

struct ProbeInput {
  const Snapshot& snapshot;
  const Workload& workload;
  const Fit& fit;
};

// Looks at one area and says what is wrong there. Pure. src/check/probes/<area>.cc defines one;
// its row stands in probes.cc.
struct Probe {
  std::string_view area;
  void (*run)(const ProbeInput& input, std::vector<Finding>& findings);
};

extern const Probe kProbes[];
extern const size_t kProbeCount;

Finding make_finding(std::string code, Severity severity, std::string message);

// "a, b, c and 5 more": at most kMaxNamed of them.
inline constexpr size_t kMaxNamed = 5;
std::string joined(const std::vector<std::string>& names);
// "zone In [a, b]".
std::string need_text(const LabelNeed& need);

}  // namespace shanty::check
