#pragma once

#include <string>

namespace shanty {

// "SIGKILL" for 9, "signal 50" for what has no name.
std::string signal_name(int signal);

}  // namespace shanty
