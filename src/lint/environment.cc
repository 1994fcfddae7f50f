#include "lint/environment.h"

namespace shanty::lint {

const EnvVar* find_variable(const Environment& env, std::string_view name) {
  for (auto variable = env.rbegin(); variable != env.rend(); ++variable) {
    if (variable->name == name) return &*variable;
  }
  return nullptr;
}

std::string_view value_of(const Environment& env, std::string_view name) {
  const EnvVar* variable = find_variable(env, name);
  if (variable == nullptr || !variable->value) return {};
  return *variable->value;
}

}  // namespace shanty::lint
