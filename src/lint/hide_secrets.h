#pragma once

#include <span>
#include <string>

#include "causes/finding.h"

namespace shanty::lint {

// Blots out what stands after each finding's place in its line of `text`, and below it what follows
// "value:", so that a report that shows lines shows no secret. Lengths stay as they are.
void hide_secrets(std::string& text, std::span<const Finding* const> secrets);

}  // namespace shanty::lint
