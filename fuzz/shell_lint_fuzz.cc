#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "causes/report.h"
#include "lint/shell/lint_shell.h"

// Any bytes end in findings with places, whose edits give a text that can be judged again.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text =
      std::string(reinterpret_cast<const char*>(data), size) + "\ntorchrun --nnodes=2 train.py\n";
  const shanty::lint::Source source{"entrypoint.sh", text, shanty::lint::SourceKind::kShell};
  const auto findings = shanty::lint::lint_shell(source);
  for (const shanty::Finding& finding : findings) {
    CHECK(finding.line > 0 && finding.column > 0);
    for (const shanty::Edit& edit : finding.edits) {
      CHECK(edit.begin <= edit.end && edit.end <= text.size());
    }
  }
  shanty::lint::lint_shell(
      {"entrypoint.sh", shanty::apply_edits(text, findings), shanty::lint::SourceKind::kShell});
  return 0;
}
