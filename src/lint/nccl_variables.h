#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "causes/finding.h"

namespace shanty::lint {

// What is wrong with one variable of NCCL or of torch's NCCL side, wherever it is written.
struct VariableProblem {
  std::string code;
  std::string message;
  std::string new_name;   // the variable should be called so
  std::string new_value;  // or have this value

  Severity severity() const;  // the catalogue's
};

// NCCL_P2P_DISABLE=1 and NCCL_SHM_DISABLE=1: a cure for some machines, and a brake on all others.
bool is_slow_path(std::string_view name, std::string_view value);
std::string slow_path_message(std::string_view name);

// Nothing: the variable is fine, or none of theirs.
std::optional<VariableProblem> check_nccl_variable(std::string_view name, std::string_view value);

}  // namespace shanty::lint
