#pragma once

#include <cstddef>
#include <string>

namespace shanty {

// The first bytes of a file of /proc, which has no size to go by; empty where it cannot be read.
std::string read_start(const std::string& path, size_t limit_bytes);

}  // namespace shanty
