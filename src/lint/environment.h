#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/yaml_tree.h"

namespace shanty::lint {

// A variable that is written somewhere: in a pod, a Dockerfile, a job file.
struct EnvVar {
  std::string name;
  std::optional<std::string> value;  // nothing: it comes from elsewhere
  Place place;
  Place value_place;
  const YamlNode* value_node = nullptr;  // of YAML, for edits
};

using Environment = std::vector<EnvVar>;

// The last one of that name, which is the one that counts; nullptr where there is none.
const EnvVar* find_variable(const Environment& env, std::string_view name);
// Its literal value, or empty.
std::string_view value_of(const Environment& env, std::string_view name);

}  // namespace shanty::lint
