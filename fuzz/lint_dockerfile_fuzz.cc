#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "lint/dockerfile.h"
#include "lint/lint.h"

// Any bytes are a Dockerfile whose words lie in the text, within the limits.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const shanty::lint::Source source{"Dockerfile",
                                    std::string(reinterpret_cast<const char*>(data), size),
                                    shanty::lint::SourceKind::kDockerfile};
  const shanty::lint::Dockerfile file = shanty::lint::read_dockerfile(source);
  CHECK(file.instructions.size() <= shanty::lint::kMaxDockerInstructions);
  for (const shanty::lint::DockerInstruction& instruction : file.instructions) {
    CHECK(instruction.offset < size);
    CHECK(instruction.stage < static_cast<int>(file.stages.size()));
    for (const shanty::lint::DockerWord& word : instruction.words) CHECK(word.offset <= size);
  }
  for (const shanty::Finding& finding : shanty::lint::lint({&source, 1})) {
    CHECK(finding.line >= 1 && finding.column >= 1);
    for (const shanty::Edit& edit : finding.edits) {
      CHECK(edit.begin <= edit.end && edit.end <= size);
    }
  }
  return 0;
}
