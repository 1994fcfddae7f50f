#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shanty {

// "1 pod", "2 pods".
std::string counted(uint64_t count, std::string_view noun);

// Without the characters of `blanks` at both ends.
std::string_view trimmed(std::string_view text, std::string_view blanks);

}  // namespace shanty
