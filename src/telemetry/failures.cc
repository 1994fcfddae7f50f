#include "telemetry/failures.h"

#include <limits>
#include <map>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "run/believable_time.h"
#include "text/json_fields.h"

namespace shanty {
namespace {

using nlohmann::json;

constexpr uint64_t kNoStep = std::numeric_limits<uint64_t>::max();

bool tells_failures(const Event& event) {
  return event.kind == event_kind::kGenerationEnded || event.kind == event_kind::kRestarting ||
         event.kind == event_kind::kEnded;
}

// The failure lies in "failure", or its fields in the extra itself.
std::optional<ReportFailure> told_failure(const Event& event) {
  const auto extra = parse_json(event.extra_json);
  if (!extra || !extra->is_object()) return std::nullopt;
  const json* nested = json_object(*extra, "failure");
  const json& fields = nested != nullptr ? *nested : *extra;
  const bool is_failure = json_uint64(fields, "generation") > 0 &&
                          !json_string(fields, "reason").empty() && fields.contains("rank");
  if (!is_failure) return std::nullopt;
  ReportFailure failure;
  failure.unix_ns = believable_unix_ns(json_int64(fields, "unix_ns", event.unix_ns));
  failure.generation = json_uint64(fields, "generation");
  failure.rank = json_int(fields, "rank", -1);
  failure.node_rank = json_int(fields, "node_rank", -1);
  failure.node = json_string(fields, "node");
  failure.reason = json_string(fields, "reason");
  failure.first_error = json_string(fields, "first_error");
  failure.step = json_uint64(fields, "step", kNoStep);
  failure.has_step = failure.step != kNoStep;
  if (!failure.has_step) failure.step = 0;
  return failure;
}

ReportFailure seen_failure(const Event& event) {
  ReportFailure failure;
  failure.unix_ns = event.unix_ns;
  failure.generation = event.generation;
  failure.rank = event.rank;
  failure.node_rank = event.node_rank;
  failure.reason = event.text;
  return failure;
}

}  // namespace

std::vector<ReportFailure> find_failures(const std::vector<Event>& events) {
  std::map<uint64_t, ReportFailure> by_generation;
  for (const Event& event : events) {
    if (!tells_failures(event)) continue;
    if (const auto failure = told_failure(event)) {
      by_generation.try_emplace(failure->generation, *failure);
    }
  }
  for (const Event& event : events) {
    const bool seen = event.kind == event_kind::kWorkerFailed && event.generation > 0;
    if (seen) by_generation.try_emplace(event.generation, seen_failure(event));
  }
  std::vector<ReportFailure> failures;
  for (auto& [generation, failure] : by_generation) failures.push_back(std::move(failure));
  return failures;
}

}  // namespace shanty
