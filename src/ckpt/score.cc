#include "ckpt/score.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "text/json_fields.h"

namespace shanty::ckpt {
namespace {

using nlohmann::json;

constexpr size_t kMaxKeptBest = 1'000'000;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '/' || c == '-';
}

std::optional<BestRule> read_rule(const json& object) {
  const json* rule = json_object(object, "keep_best");
  if (rule == nullptr) return std::nullopt;
  const std::string mode = json_string(*rule, "mode");
  const BestRule out{.metric = json_string(*rule, "metric"),
                     .highest = mode == "max",
                     .keep = json_uint64(*rule, "count")};
  const bool known = mode == "max" || mode == "min";
  if (!known || !is_metric_name(out.metric) || out.keep < 1 || out.keep > kMaxKeptBest) {
    return std::nullopt;
  }
  return out;
}

}  // namespace

bool is_metric_name(const std::string& name) {
  return !name.empty() && name.size() <= kMaxMetricNameBytes &&
         std::all_of(name.begin(), name.end(), is_name_character);
}

Score read_score(const json& object) {
  Score score{.metrics = {}, .best = read_rule(object)};
  const json* metrics = json_object(object, "metrics");
  if (metrics == nullptr) return score;
  for (const auto& [name, value] : metrics->items()) {
    if (score.metrics.size() >= kMaxMetrics) break;
    if (!is_metric_name(name) || !value.is_number()) continue;
    const double number = value.get<double>();
    if (std::isfinite(number)) score.metrics[name] = number;
  }
  return score;
}

void write_score(const Score& score, json& object) {
  if (!score.metrics.empty()) object["metrics"] = score.metrics;
  if (!score.best) return;
  object["keep_best"] = {{"metric", score.best->metric},
                         {"mode", score.best->highest ? "max" : "min"},
                         {"count", score.best->keep}};
}

}  // namespace shanty::ckpt
