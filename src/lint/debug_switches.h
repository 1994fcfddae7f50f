#pragma once

#include <string_view>

namespace shanty::lint {

// What a variable does to the training when it has this value: a switch for finding errors, left
// on. Empty for all else.
std::string_view debugging_effect(std::string_view name, std::string_view value);

}  // namespace shanty::lint
