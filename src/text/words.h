#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shanty {

// "1 pod", "2 pods".
std::string counted(uint64_t count, std::string_view noun);

// Without the characters of `blanks` at both ends.
std::string_view trimmed(std::string_view text, std::string_view blanks);

// The numbers of a list that a program prints: "3", "[0, 1, 2]", "0-2,7", the first `limit` of them
// in their order. What is no number, or too large for an int, is passed over.
std::vector<int> numbers_in(std::string_view list, size_t limit);

}  // namespace shanty
