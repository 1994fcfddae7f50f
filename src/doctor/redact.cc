#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "doctor/verdict_text.h"
#include "logs/pattern.h"

namespace shanty {
namespace {

// Replaces what names somebody or something, the same each time.
class Redactor {
 public:
  explicit Redactor(std::vector<std::string> names) : names_(std::move(names)) {
    // Longer names first: "node-1" is a part of "node-12".
    std::sort(names_.begin(), names_.end(),
              [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
    for (const std::string& name : names_) word(name, "host");
  }

  void apply(std::string& text) {
    for (const auto& [pattern, kind] : kinds_) replace(text, pattern, kind);
    for (const std::string& name : names_) replace_name(text, name);
  }

  void apply(std::vector<std::string>& texts) {
    for (std::string& text : texts) apply(text);
  }

 private:
  const std::string& word(const std::string& what, std::string_view kind) {
    const auto at = words_.find(what);
    if (at != words_.end()) return at->second;
    const size_t number = ++counts_[std::string(kind)];
    return words_.emplace(what, fmt::format("{}-{}", kind, number)).first->second;
  }

  void replace(std::string& text, const Pattern& pattern, std::string_view kind) {
    std::string out;
    std::string_view rest = text;
    while (true) {
      Captures captures;
      if (!pattern.find(rest, captures) || captures.empty() || captures[0].second.empty()) break;
      const std::string_view found = captures[0].second;
      const size_t at = static_cast<size_t>(found.data() - rest.data());
      out += std::string(rest.substr(0, at)) + word(std::string(found), kind);
      rest.remove_prefix(at + found.size());
    }
    if (!out.empty()) text = out + std::string(rest);
  }

  void replace_name(std::string& text, const std::string& name) {
    const auto inside = [&text](size_t at) {
      return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0);
    };
    for (size_t at = text.find(name); at != text.npos; at = text.find(name, at)) {
      if ((at > 0 && inside(at - 1)) || inside(at + name.size())) {
        at += name.size();
        continue;
      }
      const std::string& with = word(name, "host");
      text.replace(at, name.size(), with);
      at += with.size();
    }
  }

  std::vector<std::string> names_;
  std::map<std::string, std::string> words_;
  std::map<std::string, size_t> counts_;
  std::vector<std::pair<Pattern, std::string_view>> kinds_ = [] {
    std::vector<std::pair<Pattern, std::string_view>> made;
    made.emplace_back(
        Pattern(
            R"((?i)(?:token|password|passwd|secret|api[_-]?key|authorization)['"]?[ =:]+(?:bearer )?['"]?(?P<v>[^\s'",;]{4,}))"),
        "secret");
    made.emplace_back(Pattern(R"(\b(?P<v>(?:hf_|ghp_|glpat-|sk-|AKIA|eyJ)[\w.-]{8,}))"), "secret");
    made.emplace_back(Pattern(R"((?:/home/|/Users/)(?P<v>[\w.-]+))"), "user");
    made.emplace_back(Pattern(R"(\b(?P<v>\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3})\b)"), "address");
    made.emplace_back(
        Pattern(R"((?P<v>\b(?:[0-9a-f]{1,4}:){3,7}:?[0-9a-f]{1,4}\b|\bfe80::[0-9a-f:]+))"),
        "address");
    made.emplace_back(
        Pattern(
            R"((?P<v>\b[\w-]+(?:\.[\w-]+)*\.(?:svc|local|internal|compute|cluster|com|net|org|io)\b[\w.-]*))"),
        "name");
    return made;
  }();
};

}  // namespace

Diagnosis redacted(const Diagnosis& diagnosis) {
  Diagnosis out = diagnosis;
  Redactor redactor(diagnosis.names);
  for (Finding& finding : out.findings) {
    redactor.apply(finding.message);
    redactor.apply(finding.subject.nodes);
    redactor.apply(finding.subject.pods);
    redactor.apply(finding.subject.devices);
    redactor.apply(finding.subject.files);
    redactor.apply(finding.ruled_out);
    redactor.apply(finding.fix);
    for (Evidence& line : finding.evidence) {
      redactor.apply(line.text);
      redactor.apply(line.file);
    }
  }
  redactor.apply(out.notes);
  out.names.clear();
  return out;
}

}  // namespace shanty
