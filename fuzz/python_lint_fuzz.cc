#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "causes/report.h"
#include "lint/python/lint_python.h"

// Any bytes end in findings with places, whose edits give a text that can be judged again.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Past the words that make a script worth reading.
  const std::string text =
      "import os, torch\nimport torch.distributed as dist\n"
      "dist.init_process_group('nccl')\n" +
      std::string(reinterpret_cast<const char*>(data), size);
  const auto findings =
      shanty::lint::lint_python({"train.py", text, shanty::lint::SourceKind::kPython});
  for (const shanty::Finding& finding : findings) {
    CHECK(finding.line > 0 && finding.column > 0);
    for (const shanty::Edit& edit : finding.edits) {
      CHECK(edit.begin <= edit.end && edit.end <= text.size());
    }
  }
  shanty::lint::lint_python(
      {"train.py", shanty::apply_edits(text, findings), shanty::lint::SourceKind::kPython});
  return 0;
}
