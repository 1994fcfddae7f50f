#include "job/schema.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "job/keys.h"
#include "job/value.h"

namespace shanty {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kNumberPattern = R"(^[0-9.][0-9_.]*([eE][-+]?[0-9]+)? *(k|K|M|G|B|T)?$)";
constexpr const char* kBytesPattern =
    R"(^[0-9.][0-9_.]*([eE][-+]?[0-9]+)? *(([KMGTP]i|[kKMGTP])?B?)$)";
constexpr const char* kDurationPattern =
    R"(^([0-9.][0-9_.]*([eE][-+]?[0-9]+)? *(us|ms|s|sec|m|min|h|d|w) *)+$|^[0-9.][0-9_.]*$)";
constexpr const char* kBandwidthPattern =
    R"(^[0-9.][0-9_.]*([eE][-+]?[0-9]+)? *([kKmMgGTP]i?)?(B/s|Bps|bits?/s|b/s|bps)$)";
constexpr const char* kPercentPattern = R"(^[0-9.][0-9_.]* *%$)";

// A job with one element in each list, so that every slot exists.
Job job_of_defaults() {
  Job job;
  job.data.emplace_back();
  return job;
}

Json number_schema(const char* type, const Range& range) {
  Json out = {{"type", type}};
  const auto bound = [&](double value) {
    return type == std::string_view("integer") ? Json(static_cast<uint64_t>(value)) : Json(value);
  };
  out["minimum"] = bound(range.min);
  if (std::isfinite(range.max)) out["maximum"] = bound(range.max);
  return out;
}

Json pattern_schema(const char* pattern) { return {{"type", "string"}, {"pattern", pattern}}; }

Json auto_schema() { return {{"const", "auto"}}; }

Json any_of(Json choices) { return {{"anyOf", std::move(choices)}}; }

Json choice_schema(const Slot& slot) {
  Json names = Json::array();
  for (std::string_view name : choice_names(slot)) names.push_back(name);
  return {{"enum", std::move(names)}};
}

Json text_schema() { return {{"type", Json::array({"string", "number", "boolean"})}}; }

Json nodes_schema(const Range& range) {
  const Json count = number_schema("integer", range);
  const Json object = {{"type", "object"},
                       {"properties", {{"min", count}, {"max", count}}},
                       {"required", Json::array({"min", "max"})},
                       {"additionalProperties", false}};
  return any_of(Json::array({count, object}));
}

Json section_schema(std::string_view section, Job& job);

Json value_schema(const Key& key, Job& job) {
  const Json integer = number_schema("integer", key.range);
  const Json number = number_schema("number", key.range);
  switch (key.type) {
    case KeyType::kSection:
      return section_schema(key.path, job);
    case KeyType::kList:
      return {{"type", "array"}, {"items", section_schema(std::string(key.path) + "[]", job)}};
    case KeyType::kText:
    case KeyType::kTextOrAuto:
      return text_schema();
    case KeyType::kPath:
      return pattern_schema("^/.");
    case KeyType::kFlag:
      return {{"type", "boolean"}};
    case KeyType::kFlagOrAuto:
      return any_of({{{"type", "boolean"}}, auto_schema()});
    case KeyType::kCount:
      return any_of({integer, pattern_schema(kNumberPattern)});
    case KeyType::kCountOrAuto:
      return any_of({integer, pattern_schema(kNumberPattern), auto_schema()});
    case KeyType::kNumber:
      return any_of({number, pattern_schema(kNumberPattern)});
    case KeyType::kBytesOrAuto:
      return any_of({integer, pattern_schema(kBytesPattern), auto_schema()});
    case KeyType::kDuration:
      return any_of({number, pattern_schema(kDurationPattern)});
    case KeyType::kDurationOrAuto:
      return any_of({number, pattern_schema(kDurationPattern), auto_schema()});
    case KeyType::kBandwidth:
      return any_of({number, pattern_schema(kBandwidthPattern)});
    case KeyType::kShareOrCount:
      return any_of({integer, pattern_schema(kPercentPattern)});
    case KeyType::kChoice:
      return choice_schema(key.slot(job));
    case KeyType::kTextList:
      return {{"type", "array"}, {"items", text_schema()}};
    case KeyType::kTextMap:
      return {{"type", "object"}, {"additionalProperties", text_schema()}};
    case KeyType::kNodes:
      return nodes_schema(key.range);
  }
  return {};
}

Json default_json(const Slot& slot, const std::string& text) {
  if (std::holds_alternative<bool*>(slot)) return text == "true";
  if (std::holds_alternative<uint64_t*>(slot)) return *std::get<uint64_t*>(slot);
  if (std::holds_alternative<double*>(slot)) return *std::get<double*>(slot);
  if (std::holds_alternative<NodeRange*>(slot)) return std::get<NodeRange*>(slot)->min;
  return text;
}

Json section_schema(std::string_view section, Job& job) {
  Json properties = Json::object();
  for (const Key* key : keys_below(section)) {
    Json value = value_schema(*key, job);
    value["description"] = key->doc;
    const Slot slot = key->slot(job);
    const std::string text = slot_text(*key, slot);
    if (!text.empty()) value["default"] = default_json(slot, text);
    properties[std::string(leaf_of(key->path))] = std::move(value);
  }
  Json out = {{"type", Json::array({"object", "null"})},
              {"properties", std::move(properties)},
              {"additionalProperties", false}};
  if (section == "data[]") out["required"] = Json::array({"claim", "mount"});
  return out;
}

// "1h", "30m", "15s": the largest unit that takes the whole.
std::string short_duration(double seconds) {
  if (std::fmod(seconds, 3600) == 0) return fmt::format("{}h", seconds / 3600);
  if (std::fmod(seconds, 60) == 0) return fmt::format("{}m", seconds / 60);
  return fmt::format("{}s", seconds);
}

std::string value_cell(const Key& key, const Slot& slot) {
  const std::string range = range_text(key);
  return expectation(key, slot) + (range.empty() ? "" : fmt::format(" ({})", range));
}

std::string default_cell(const Key& key, const Slot& slot) {
  const std::string text = slot_text(key, slot);
  if (text.empty()) return std::string(key.unset);
  if (std::holds_alternative<double*>(slot)) {
    return fmt::format("`{}`", short_duration(*std::get<double*>(slot)));
  }
  return fmt::format("`{}`", text);
}

}  // namespace

std::string job_schema_json() {
  Job job = job_of_defaults();
  Json out = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
              {"title", "shanty job file"}};
  out.update(section_schema("", job));
  out["type"] = "object";
  out["required"] = Json::array({"run"});
  return out.dump(2) + "\n";
}

std::string job_keys_markdown() {
  Job job = job_of_defaults();
  std::string out = "| key | value | default | meaning |\n| --- | --- | --- | --- |\n";
  for (const Key& key : job_keys()) {
    const Slot slot = key.slot(job);
    const bool is_group = key.type == KeyType::kSection || key.type == KeyType::kList;
    out +=
        fmt::format("| {}`{}`{} | {} | {} | {} |\n", is_group ? "**" : "", key.path,
                    is_group ? "**" : "", value_cell(key, slot), default_cell(key, slot), key.doc);
  }
  return out;
}

}  // namespace shanty
