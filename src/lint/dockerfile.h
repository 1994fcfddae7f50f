#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lint/environment.h"
#include "lint/source.h"
#include "text/yaml_tree.h"

namespace shanty::lint {

// A word of an instruction and where it stands.
struct DockerWord {
  std::string text;
  size_t offset = 0;  // in the file
};

struct DockerInstruction {
  std::string name;               // upper case, "RUN"
  size_t offset = 0;              // of the name in the file
  int stage = -1;                 // 0 is the first FROM; -1 before it
  std::vector<DockerWord> words;  // of what follows; flags such as --mount=... too
  bool is_exec_form = false;      // CMD ["a", "b"]: words are its items
  std::string text;               // what follows, lines joined, heredocs appended

  bool mentions(std::string_view part) const { return text.find(part) != text.npos; }
};

struct DockerStage {
  std::string image;  // with ARG defaults put in
  std::string name;   // AS name
  size_t offset = 0;  // of the image's word
};

struct Dockerfile {
  const Source* source = nullptr;
  std::vector<DockerInstruction> instructions;
  std::vector<DockerStage> stages;
  Environment env;  // ENV of the last stage

  // The instructions of the stage that becomes the image, and of the stages that it is built on.
  std::vector<const DockerInstruction*> final_instructions() const;
  // The outermost image the last stage stands on.
  const DockerStage* base() const;
};

// At most these are read; the rest of a file is left out.
inline constexpr size_t kMaxDockerInstructions = 10'000;
inline constexpr size_t kMaxDockerWords = 100'000;

// Reads any text: lines that are no instruction are skipped.
Dockerfile read_dockerfile(const Source& source);

}  // namespace shanty::lint
