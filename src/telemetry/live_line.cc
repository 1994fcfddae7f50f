#include "telemetry/live_line.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <type_traits>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "run/believable_time.h"
#include "telemetry/rank_fields.h"
#include "text/json_fields.h"

namespace shanty {
namespace {

using nlohmann::json;

constexpr Duration kShortestWait = std::chrono::seconds(10);
constexpr size_t kBytesPerSecond = 200;
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// Four digits are more than anybody looks at, and keep the line short.
json rounded(double value) {
  if (!std::isfinite(value)) return nullptr;
  return parse_json(fmt::format("{:.4g}", value)).value_or(nullptr);
}

json names_of_fields() {
  json names = json::array();
  const RankTelemetry any;
  for_each_rank_field(any, [&](const char* name, const auto&) { names.push_back(name); });
  return names;
}

json row_of(const RankTelemetry& rank) {
  json row = json::array();
  for_each_rank_field(rank, [&](const char*, const auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, double>) {
      row.push_back(rounded(value));
    } else {
      row.push_back(value);
    }
  });
  return row;
}

void read_field(const json& in, const char* name, double& value) {
  value = json_double(in, name, kUnknown);
}
void read_field(const json& in, const char* name, int& value) { value = json_int(in, name); }
void read_field(const json& in, const char* name, int64_t& value) {  // all of them are times
  value = believable_unix_ns(json_int64(in, name));
}
void read_field(const json& in, const char* name, uint64_t& value) {
  value = json_uint64(in, name);
}
void read_field(const json& in, const char* name, bool& value) { value = json_bool(in, name); }
void read_field(const json& in, const char* name, std::string& value) {
  value = json_string(in, name);
}

// Columns that this version does not know are passed over, those that are missing stay empty.
RankTelemetry read_row(const json& names, const json& row) {
  json named = json::object();
  for (size_t i = 0; i < std::min(names.size(), row.size()); ++i) {
    if (names[i].is_string()) named[names[i].get_ref<const std::string&>()] = row[i];
  }
  RankTelemetry rank;
  for_each_rank_field(rank, [&](const char* name, auto& value) { read_field(named, name, value); });
  return rank;
}

}  // namespace

std::string encode_live_line(const LiveState& state) {
  std::vector<RankTelemetry> ranks = state.ranks;
  if (ranks.size() > kMaxLineRanks) {
    hold_up_most_first(ranks);
    ranks.resize(kMaxLineRanks);
  }
  json rows = json::array();
  for (const RankTelemetry& rank : ranks) rows.push_back(row_of(rank));
  const json line = {{"unix_ns", state.unix_ns},    {"state", state.state},
                     {"text", state.text},          {"generation", state.generation},
                     {"restarts", state.restarts},  {"started_unix_ns", state.started_unix_ns},
                     {"nodes", state.nodes},        {"world_size", state.world_size},
                     {"fields", names_of_fields()}, {"ranks", std::move(rows)}};
  return print_json(line);
}

Result<LiveState> decode_live_line(std::string_view line) {
  if (line.size() > kMaxLiveLineBytes) return Error{"a line about ranks is too long"};
  const auto in = parse_json(line);
  if (!in || !in->is_object()) return Error{"a line about ranks is not a JSON object"};
  const json* names = json_array(*in, "fields");
  const json* rows = json_array(*in, "ranks");
  if (names == nullptr || rows == nullptr) return Error{"a line about ranks names no fields"};
  LiveState state{.unix_ns = believable_unix_ns(json_int64(*in, "unix_ns")),
                  .state = json_string(*in, "state"),
                  .text = json_string(*in, "text"),
                  .generation = json_uint64(*in, "generation"),
                  .restarts = json_int(*in, "restarts"),
                  .ranks = {},
                  .started_unix_ns = believable_unix_ns(json_int64(*in, "started_unix_ns")),
                  .nodes = json_int(*in, "nodes"),
                  .world_size = json_int(*in, "world_size")};
  for (const json& row : *rows) {
    if (row.is_array() && state.ranks.size() < kMaxLineRanks) {
      state.ranks.push_back(read_row(*names, row));
    }
  }
  std::ranges::sort(state.ranks, {}, &RankTelemetry::rank);
  return state;
}

Duration wait_after_live_line(size_t line_bytes) {
  const Duration wait = std::chrono::seconds(line_bytes / kBytesPerSecond);
  return std::clamp(wait, kShortestWait, kLongestLiveLineWait);
}

void hold_up_most_first(std::vector<RankTelemetry>& ranks) {
  const auto order = [](const RankTelemetry& rank) {
    const double step_s = std::isnan(rank.step_s) ? 0 : rank.step_s;
    return std::tuple(rank.alive, rank.has_step, rank.step, -step_s, rank.rank);
  };
  std::ranges::sort(ranks, {}, order);
}

}  // namespace shanty
