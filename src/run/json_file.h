#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace shanty {

// The JSON files of the run directory: one object each, whose "format" says how it is to be read.

// Fails for what is no JSON object or of another format.
Result<nlohmann::json> parse_json_file(std::string_view text, int format);
// The same for the file at `path`; a longer one than `limit_bytes` is an error. Errors name it.
Result<nlohmann::json> read_json_file(const std::string& path, int format, size_t limit_bytes);

}  // namespace shanty
