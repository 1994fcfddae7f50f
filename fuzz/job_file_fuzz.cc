#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "job/parse.h"

// Any bytes end in diagnostics or in a job that survives being written and read again.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const shanty::ParsedJob parsed = shanty::parse_job(text, "job.yaml");
  CHECK(parsed.diagnostics.size() <= shanty::kMaxJobDiagnostics + 1);
  const std::string shown = shanty::format_diagnostics(parsed.diagnostics, text, {});
  CHECK(parsed.ok() || !shown.empty());
  if (!parsed.ok()) return 0;
  const shanty::ParsedJob again =
      shanty::parse_job(shanty::serialize_job(parsed.job), "again.yaml");
  CHECK(again.ok());
  CHECK(again.job == parsed.job);
  return 0;
}
