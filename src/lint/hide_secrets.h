#pragma once

#include <string>

#include "causes/finding.h"

namespace shanty::lint {

// Blots out what stands after a finding's place in its line of `text`, and below it what follows
// "value:", so that a report that shows lines shows no secret. Lengths stay as they are.
void hide_secret(std::string& text, const Finding& finding);

}  // namespace shanty::lint
