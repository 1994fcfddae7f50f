#include "telemetry/live.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "os/files.h"
#include "run/believable_time.h"
#include "run/json_file.h"
#include "telemetry/rank_fields.h"
#include "text/json_fields.h"

namespace shanty {
namespace {

using nlohmann::json;

constexpr int kLiveFormat = 1;
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

struct WriteField {
  json& out;
  void operator()(const char* name, double value) const { out[name] = json_number(value); }
  template <typename T>
  void operator()(const char* name, const T& value) const {
    out[name] = value;
  }
};

struct ReadField {
  const json& in;
  void operator()(const char* name, double& value) const {
    value = json_double(in, name, kUnknown);
  }
  void operator()(const char* name, int& value) const { value = json_int(in, name); }
  void operator()(const char* name, int64_t& value) const {  // all of them are times
    value = believable_unix_ns(json_int64(in, name));
  }
  void operator()(const char* name, uint64_t& value) const { value = json_uint64(in, name); }
  void operator()(const char* name, bool& value) const { value = json_bool(in, name); }
  void operator()(const char* name, std::string& value) const { value = json_string(in, name); }
};

json rank_to_json(const RankTelemetry& telemetry) {
  json out;
  for_each_rank_field(telemetry, WriteField{out});
  return out;
}

RankTelemetry rank_from_json(const json& in) {
  RankTelemetry telemetry;
  for_each_rank_field(telemetry, ReadField{in});
  return telemetry;
}

LiveState live_from_json(const json& in) {
  LiveState state;
  state.unix_ns = believable_unix_ns(json_int64(in, "unix_ns"));
  state.state = json_string(in, "state");
  state.text = json_string(in, "text");
  state.generation = json_uint64(in, "generation");
  state.restarts = json_int(in, "restarts");
  state.started_unix_ns = believable_unix_ns(json_int64(in, "started_unix_ns"));
  state.nodes = json_int(in, "nodes");
  state.world_size = json_int(in, "world_size");
  if (const json* ranks = json_array(in, "ranks")) {
    for (const json& rank : *ranks) state.ranks.push_back(rank_from_json(rank));
  }
  return state;
}

}  // namespace

std::string encode_rank_telemetry(const RankTelemetry& telemetry) {
  return print_json(rank_to_json(telemetry));
}

Result<RankTelemetry> decode_rank_telemetry(std::string_view text) {
  const auto parsed = parse_json(text);
  if (!parsed || !parsed->is_object()) return Error{"a rank's telemetry is not a JSON object"};
  return rank_from_json(*parsed);
}

std::string encode_live(const LiveState& state) {
  json out;
  out["format"] = kLiveFormat;
  out["unix_ns"] = state.unix_ns;
  out["time"] = format_utc(state.unix_ns);
  out["state"] = state.state;
  out["text"] = state.text;
  out["generation"] = state.generation;
  out["restarts"] = state.restarts;
  out["started_unix_ns"] = state.started_unix_ns;
  out["nodes"] = state.nodes;
  out["world_size"] = state.world_size;
  out["ranks"] = json::array();
  for (const RankTelemetry& rank : state.ranks) out["ranks"].push_back(rank_to_json(rank));
  return print_json(out) + "\n";
}

Result<LiveState> decode_live(std::string_view text) {
  return live_from_json(TRY(parse_json_file(text, kLiveFormat)));
}

Status write_live(const std::string& path, const LiveState& state) {
  return replace_file(path, encode_live(state));
}

Result<LiveState> read_live(const std::string& path) {
  return live_from_json(TRY(read_json_file(path, kLiveFormat, kMaxLiveBytes)));
}

JobProgress summarize(const std::vector<RankTelemetry>& ranks) {
  JobProgress out;
  out.loss = kUnknown;
  out.samples_per_s = kUnknown;
  double step_s_sum = 0;
  int with_steps = 0;
  for (const RankTelemetry& rank : ranks) {
    out.total_steps = std::max(out.total_steps, rank.total_steps);
    if (!rank.has_step) continue;
    out.step = out.has_step ? std::min(out.step, rank.step) : rank.step;
    out.has_step = true;
    if (std::isnan(out.loss)) out.loss = rank.loss;
    if (!std::isnan(rank.samples_per_s)) {
      out.samples_per_s =
          (std::isnan(out.samples_per_s) ? 0 : out.samples_per_s) + rank.samples_per_s;
    }
    step_s_sum += rank.step_s;
    ++with_steps;
  }
  if (with_steps > 0) out.step_s = step_s_sum / with_steps;
  return out;
}

}  // namespace shanty
