#include "run/json_file.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "os/files.h"
#include "text/json_fields.h"

namespace shanty {

Result<nlohmann::json> parse_json_file(std::string_view text, int format) {
  auto parsed = parse_json(text);
  if (!parsed || !parsed->is_object()) return Error{"not a JSON object"};
  if (json_int(*parsed, "format") != format) {
    return Error{"of a format this shanty does not know"};
  }
  return std::move(*parsed);
}

Result<nlohmann::json> read_json_file(const std::string& path, int format, size_t limit_bytes) {
  return parse_json_file(TRY(read_file(path, limit_bytes)), format).context("reading " + path);
}

}  // namespace shanty
