#include <cstdlib>

#include "doctor/readers/lines.h"
#include "doctor/readers/readers.h"
#include "logs/pattern.h"
#include "text/json_fields.h"
#include "text/utf8.h"

#include <nlohmann/json.hpp>

namespace shanty {
namespace {

double decimal(const Captures& captures, std::string_view name) {
  return std::atof(std::string(capture(captures, name)).c_str());
}

void iperf_json(const nlohmann::json& report, const std::string& name, ClusterFacts& facts) {
  const nlohmann::json* end = json_object(report, "end");
  if (!end) return;
  const nlohmann::json* sum = json_object(*end, "sum_received");
  const nlohmann::json* sent = json_object(*end, "sum_sent");
  if (!sum) return;
  BandwidthFact fact{.what = "iperf3",
                     .gigabytes_per_s = json_double(*sum, "bits_per_second") / 8e9,
                     .wrong = 0,
                     .retransmits = sent ? json_int64(*sent, "retransmits") : 0,
                     .where = {name, 0, "sum_received"}};
  facts.bandwidths.push_back(std::move(fact));
}

}  // namespace

void read_nccl_tests(std::string_view text, const std::string& name, ClusterFacts& facts) {
  const Pattern average(R"~(# Avg bus bandwidth *: *(?P<gb>[\d.]+))~");
  const Pattern wrong(R"~(# Out of bounds values *: *(?P<n>\d+))~");
  BandwidthFact fact{.what = "nccl-tests",
                     .gigabytes_per_s = -1,
                     .wrong = 0,
                     .retransmits = 0,
                     .where = {name, 0, ""}};
  for (Lines in(text); in.next();) {
    Captures captures;
    if (average.find(in.line, captures)) {
      fact.gigabytes_per_s = decimal(captures, "gb");
      fact.where = {name, in.number, printable(in.line)};
    } else if (wrong.find(in.line, captures)) {
      fact.wrong = static_cast<int64_t>(decimal(captures, "n"));
    }
  }
  if (fact.gigabytes_per_s >= 0) facts.bandwidths.push_back(std::move(fact));
}

void read_iperf(std::string_view text, const std::string& name, ClusterFacts& facts) {
  if (const auto report = parse_json(text)) {
    if (report->is_object()) iperf_json(*report, name, facts);
    return;
  }
  const Pattern line(
      R"~(\[(?: *\d+|SUM)\] +[\d.]+-[\d.]+ +sec +[\d.]+ \w+ +(?P<rate>[\d.]+) (?P<unit>[KMG]?)bits/sec(?: +(?P<retr>\d+))? +(?P<side>sender|receiver))~");
  for (Lines in(text); in.next();) {
    Captures captures;
    if (!line.find(in.line, captures) || capture(captures, "side") != "receiver") continue;
    const std::string_view unit = capture(captures, "unit");
    const double scale = unit == "G" ? 1e9 : unit == "M" ? 1e6 : unit == "K" ? 1e3 : 1;
    facts.bandwidths.push_back({.what = "iperf3",
                                .gigabytes_per_s = decimal(captures, "rate") * scale / 8e9,
                                .wrong = 0,
                                .retransmits = 0,
                                .where = {name, in.number, printable(in.line)}});
  }
}

}  // namespace shanty
