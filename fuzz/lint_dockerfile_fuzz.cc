#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "lint/dockerfile.h"
#include "lint/lint.h"

// Any bytes are a Dockerfile whose words lie in the text, within the limits.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const shanty::Source source{"Dockerfile", std::string(reinterpret_cast<const char*>(data), size),
                              shanty::SourceKind::kDockerfile};
  const shanty::Dockerfile file = shanty::read_dockerfile(source);
  CHECK(file.instructions.size() <= shanty::kMaxDockerInstructions);
  for (const shanty::DockerInstruction& instruction : file.instructions) {
    CHECK(instruction.offset < size);
    CHECK(instruction.stage < static_cast<int>(file.stages.size()));
    for (const shanty::DockerWord& word : instruction.words) CHECK(word.offset <= size);
  }
  for (const shanty::Finding& finding : shanty::lint({&source, 1})) {
    CHECK(finding.line >= 1 && finding.column >= 1);
    for (const shanty::Edit& edit : finding.edits) {
      CHECK(edit.begin <= edit.end && edit.end <= size);
    }
  }
  return 0;
}
