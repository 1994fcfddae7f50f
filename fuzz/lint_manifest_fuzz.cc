#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "lint/fix.h"
#include "lint/ignore.h"
#include "lint/lint.h"

namespace {

// A job around the bytes, so that a fuzzer that starts from nothing gets to the rules.
std::string inside_a_job(std::string_view bytes) {
  std::string text =
      "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\nspec:\n"
      "  pytorchReplicaSpecs:\n    Worker:\n      template:\n        spec:\n          containers:\n"
      "            - name: pytorch\n              image: a\n              ";
  for (const char c : bytes) {
    text += c;
    if (c == '\n') text.append(14, ' ');
  }
  return text;
}

void check_findings(const shanty::lint::Source& source) {
  for (const shanty::Finding& finding : shanty::lint::lint({&source, 1})) {
    CHECK(!finding.code.empty() && !finding.message.empty());
    CHECK(finding.line >= 0 && finding.column >= 0);
    for (const shanty::Edit& edit : finding.edits) {
      CHECK(edit.begin <= edit.end && edit.end <= source.text.size());
    }
  }
}

}  // namespace

// Any bytes end in findings whose places and edits lie in the text, and mending comes to an end.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const std::string& text : {std::string(bytes), inside_a_job(bytes)}) {
    std::vector<shanty::lint::Source> sources = {
        {"a.yaml", text, shanty::lint::SourceKind::kManifest}};
    check_findings(sources[0]);
    (void)shanty::lint::fix_sources(sources);
    check_findings(sources[0]);
  }
  return 0;
}
