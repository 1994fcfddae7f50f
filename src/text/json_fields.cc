#include "text/json_fields.h"

#include <cmath>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

namespace shanty {
namespace {

using nlohmann::json;

const json* find(const json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(name);
  return it == object.end() ? nullptr : &*it;
}

// Counts brackets outside strings.
bool nested_deeper_than(std::string_view text, size_t limit) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > limit) return true;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

}  // namespace

std::optional<json> parse_json(std::string_view text, size_t max_nesting) {
  if (nested_deeper_than(text, max_nesting)) return std::nullopt;
  json parsed = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return std::nullopt;
  return parsed;
}

std::string print_json(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string print_json_pretty(const json& value) {
  return value.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string json_string(const json& object, const char* name, std::string fallback) {
  const json* field = find(object, name);
  if (field == nullptr || !field->is_string()) return fallback;
  return field->get_ref<const std::string&>();
}

int64_t json_int64(const json& object, const char* name, int64_t fallback) {
  const json* field = find(object, name);
  if (field == nullptr || !field->is_number_integer()) return fallback;
  if (field->is_number_unsigned()) {
    const auto value = field->get<uint64_t>();
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return fallback;
  }
  return field->get<int64_t>();
}

uint64_t json_uint64(const json& object, const char* name, uint64_t fallback) {
  const json* field = find(object, name);
  if (field == nullptr || !field->is_number_unsigned()) return fallback;
  return field->get<uint64_t>();
}

int json_int(const json& object, const char* name, int fallback) {
  const int64_t value = json_int64(object, name, fallback);
  if (value < std::numeric_limits<int>::min() || value > std::numeric_limits<int>::max()) {
    return fallback;
  }
  return static_cast<int>(value);
}

double json_double(const json& object, const char* name, double fallback) {
  const json* field = find(object, name);
  if (field == nullptr || !field->is_number()) return fallback;
  return field->get<double>();
}

bool json_bool(const json& object, const char* name, bool fallback) {
  const json* field = find(object, name);
  if (field == nullptr || !field->is_boolean()) return fallback;
  return field->get<bool>();
}

const json* json_array(const json& object, const char* name) {
  const json* field = find(object, name);
  return field != nullptr && field->is_array() ? field : nullptr;
}

const json* json_object(const json& object, const char* name) {
  const json* field = find(object, name);
  return field != nullptr && field->is_object() ? field : nullptr;
}

json json_number(double value) {
  if (!std::isfinite(value)) return nullptr;
  return value;
}

}  // namespace shanty
