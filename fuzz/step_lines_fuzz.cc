#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "doctor/run/diagnose_run.h"

// A log and what goes on after it, cut out of the bytes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  const size_t cut = text.size() * data[0] / 256;
  const std::vector<shanty::StepLog> logs = {{"a", text.substr(0, cut)}, {"b", text.substr(cut)}};
  shanty::audit_step_logs(logs);
  return 0;
}
