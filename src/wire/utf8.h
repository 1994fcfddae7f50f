#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shanty::wire {

// `text` as valid UTF-8 of at most `max_bytes`, cut between characters. Each byte that belongs to
// no character becomes U+FFFD.
std::string clean_utf8(std::string_view text, size_t max_bytes);

// Appends `text`, which is valid UTF-8, as a JSON string.
void append_json_string(std::string& out, std::string_view text);

}  // namespace shanty::wire
