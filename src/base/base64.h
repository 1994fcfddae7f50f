#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace shanty {

// RFC 4648 with padding.
std::string encode_base64(std::string_view bytes);
// nullopt: another alphabet, no padding, bits left over.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace shanty
