#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shanty::wire {

// How deep JSON objects and lists may nest in a whole message, and in an object that a message
// carries for others.
inline constexpr size_t kMaxDepth = 16;
inline constexpr size_t kMaxEmbeddedDepth = 8;

// The deepest nesting of braces and brackets outside strings, whether or not `json` is valid.
size_t nesting_depth(std::string_view json);

// `json` in one canonical spelling; "" when it is not an object, too large or nested too deeply.
std::string canonical_object(std::string_view json, size_t max_bytes);

}  // namespace shanty::wire
