#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace shanty::ckpt {

// That the best checkpoints by one metric stay.
struct BestRule {
  std::string metric;
  bool highest = false;  // is the best; else the lowest
  size_t keep = 0;       // at least 1
};

// What a checkpoint tells of how good its model is, and which ones stay for that.
struct Score {
  std::map<std::string, double> metrics;  // finite
  std::optional<BestRule> best;
};

// So few and short that a manifest's first line stays within its limit.
constexpr size_t kMaxMetrics = 16;
constexpr size_t kMaxMetricNameBytes = 48;

// Letters, digits and _ . / - only, not too long.
bool is_metric_name(const std::string& name);

// The keys `metrics` and `keep_best` of docs/formats/checkpoint.md. What is neither is left out.
Score read_score(const nlohmann::json& object);
void write_score(const Score& score, nlohmann::json& object);

}  // namespace shanty::ckpt
