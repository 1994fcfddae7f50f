#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "causes/catalogue.h"
#include "causes/report.h"
#include "text/json_fields.h"

namespace shanty {
namespace {

using nlohmann::json;

constexpr const char* kSchema = "https://json.schemastore.org/sarif-2.1.0.json";

std::string_view level(Severity severity) {
  return severity == Severity::kNote ? "note" : severity_name(severity);
}

std::string uri_of(std::string_view path) {
  constexpr std::string_view kKept = "-_.~/";
  std::string out;
  for (const char c : path) {
    const bool is_kept = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
                         (c >= 'a' && c <= 'z') || kKept.find(c) != kKept.npos;
    out += is_kept ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

json rule_of(const std::string& code) {
  json rule{{"id", code}};
  if (const Cause* cause = find_cause(code)) {
    rule["shortDescription"] = {{"text", cause->title}};
    rule["fullDescription"] = {{"text", cause->why}};
    rule["help"] = {{"text", cause->fix}, {"markdown", cause->page}};
    rule["defaultConfiguration"] = {{"level", level(cause->severity)}};
  }
  return rule;
}

json fix_of(const Finding& finding, std::string_view text) {
  json replacements = json::array();
  for (const Edit& edit : finding.edits) {
    const size_t begin = std::min(edit.begin, text.size());
    const size_t end = std::clamp(edit.end, begin, text.size());
    replacements.push_back({{"deletedRegion",
                             {{"charOffset", count_characters(text.substr(0, begin))},
                              {"charLength", count_characters(text.substr(begin, end - begin))}}},
                            {"insertedContent", {{"text", edit.text}}}});
  }
  const std::string said = finding.fix.empty() ? finding.message : finding.fix.front();
  return {{"description", {{"text", said}}},
          {"artifactChanges", json::array({{{"artifactLocation", {{"uri", uri_of(finding.file)}}},
                                            {"replacements", std::move(replacements)}}})}};
}

json result_of(const Finding& finding, size_t rule_index, const SourceOf& source) {
  json result{{"ruleId", finding.code},
              {"ruleIndex", rule_index},
              {"level", level(finding.severity)},
              {"message", {{"text", finding.message}}}};
  json place{{"artifactLocation", {{"uri", uri_of(finding.file)}}}};
  if (finding.line > 0) {
    place["region"] = {{"startLine", finding.line}, {"startColumn", std::max(finding.column, 1)}};
  }
  result["locations"] = json::array({{{"physicalLocation", std::move(place)}}});
  if (!finding.edits.empty())
    result["fixes"] = json::array({fix_of(finding, source(finding.file))});
  return result;
}

}  // namespace

std::string findings_sarif(std::span<const Finding> findings, const SourceOf& source) {
  std::map<std::string, size_t> indices;
  json rules = json::array();
  json results = json::array();
  for (Finding finding : findings) {
    complete(finding);
    const auto [at, is_new] = indices.emplace(finding.code, rules.size());
    if (is_new) rules.push_back(rule_of(finding.code));
    results.push_back(result_of(finding, at->second, source));
  }
  const json driver{{"name", "shanty"}, {"version", SHANTY_VERSION}, {"rules", std::move(rules)}};
  const json run{{"tool", {{"driver", driver}}},
                 {"columnKind", "unicodeCodePoints"},
                 {"results", std::move(results)}};
  return print_json_pretty(
             {{"$schema", kSchema}, {"version", "2.1.0"}, {"runs", json::array({run})}}) +
         "\n";
}

}  // namespace shanty
