#pragma once

#include <string>

namespace shanty::lint {

enum class SourceKind { kManifest, kDockerfile, kShell, kPython, kJobFile };

// A text to lint. Its bytes may be anything: readers refuse what they cannot take.
struct Source {
  std::string name;  // as findings name it
  std::string text;
  SourceKind kind = SourceKind::kManifest;
};

}  // namespace shanty::lint
