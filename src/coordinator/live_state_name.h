#pragma once

#include "gang/coordinator_state.h"

namespace shanty {

// What the job is doing, in the word that live.json has for it (docs/formats/run-directory.md).
const char* live_state_name(const gang::CoordinatorState& state);

}  // namespace shanty
