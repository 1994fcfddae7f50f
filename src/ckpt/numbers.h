#pragma once

#include <string>
#include <string_view>

namespace shanty::ckpt {

// Reads one element of a safetensors type at `at` as a number; nullptr for types that are none
// here (complex, unknown). BOOL is 0 or 1.
using NumberReader = double (*)(const char* at);
NumberReader number_reader(std::string_view dtype);

}  // namespace shanty::ckpt
