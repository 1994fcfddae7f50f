#include "check/probes/areas.h"

namespace shanty::check {

const Probe kProbes[] = {
    {"room", probe_room},       {"gpus", probe_gpus},           {"nodes", probe_nodes},
    {"storage", probe_storage}, {"images", probe_images},       {"quota", probe_quota},
    {"gang", probe_gang},       {"admission", probe_admission},
};
const size_t kProbeCount = sizeof kProbes / sizeof kProbes[0];

Finding make_finding(std::string code, Severity severity, std::string message) {
  Finding finding;
  finding.code = std::move(code);
  finding.severity = severity;
  finding.message = std::move(message);
  return finding;
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size() && i < kMaxNamed; ++i) {
    out += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kMaxNamed) out += " and " + std::to_string(names.size() - kMaxNamed) + " more";
  return out;
}

std::string need_text(const LabelNeed& need) {
  return need.key + " " + need.op + (need.values.empty() ? "" : " [" + joined(need.values) + "]");
}

}  // namespace shanty::check
