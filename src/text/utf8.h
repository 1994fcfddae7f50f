#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace shanty {

// The byte offset of the first place that is not valid UTF-8 (overlong forms and surrogates
// included), or nothing.
std::optional<size_t> find_invalid_utf8(std::string_view text);

// True when valid UTF-8 `text` holds a control character other than tab, newline and carriage
// return, or one of Unicode's non-characters that YAML cannot carry.
bool has_control_character(std::string_view text);

// How many terminal columns `text` takes: wide East Asian characters and emoji count two,
// combining marks none. Bytes that are not UTF-8 count one each.
size_t display_width(std::string_view text);

// The longest prefix of whole characters that takes at most `columns` columns.
std::string_view prefix_of_width(std::string_view text, size_t columns);

// `text` in double quotes, cut at kMaxQuotedBytes, with control characters and broken UTF-8
// replaced: safe on a terminal whatever a file contains.
inline constexpr size_t kMaxQuotedBytes = 60;
std::string in_quotes(std::string_view text);
// The same replacement without quotes and without a cut.
std::string printable(std::string_view text);

}  // namespace shanty
