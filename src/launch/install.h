#pragma once

#include <string>

#include "base/result.h"

namespace shanty {

// Copies this program to `directory`/shanty, mode 0755, whole or not at all. The directory is made
// when it is missing.
Status install_program(const std::string& directory);

}  // namespace shanty
