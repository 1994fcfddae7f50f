#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace shanty {

// Reading JSON that may be torn, of another version or hostile. Nothing here throws.

// nullopt: not JSON, or nested deeper than `max_nesting` (printing and destroying are recursive).
std::optional<nlohmann::json> parse_json(std::string_view text, size_t max_nesting = 64);
// Compact; invalid UTF-8 becomes U+FFFD.
std::string print_json(const nlohmann::json& json);
std::string print_json_pretty(const nlohmann::json& json);

// The field `name` of `object`; `fallback` when it is missing, of another type or out of range.
std::string json_string(const nlohmann::json& object, const char* name, std::string fallback = "");
int64_t json_int64(const nlohmann::json& object, const char* name, int64_t fallback = 0);
uint64_t json_uint64(const nlohmann::json& object, const char* name, uint64_t fallback = 0);
int json_int(const nlohmann::json& object, const char* name, int fallback = 0);
double json_double(const nlohmann::json& object, const char* name, double fallback = 0);
bool json_bool(const nlohmann::json& object, const char* name, bool fallback = false);
// nullptr when missing or not an array.
const nlohmann::json* json_array(const nlohmann::json& object, const char* name);
const nlohmann::json* json_object(const nlohmann::json& object, const char* name);

// A number; null for NaN and infinities, which JSON cannot say.
nlohmann::json json_number(double value);

}  // namespace shanty
