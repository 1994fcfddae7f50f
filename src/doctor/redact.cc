#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "doctor/verdict_text.h"
#include "logs/pattern.h"

namespace shanty {
namespace {

constexpr size_t kShortestName = 3;

// What stands for what, by its shape. Keys and tokens come first: they may hold what looks like a
// name.
struct Shape {
  const char* expression;  // group v is replaced
  std::string_view kind;
};

constexpr Shape kShapes[] = {
    {R"(://(?P<v>[^/\s:@'"]+(?::[^/\s@'"]*)?)@)", "secret"},
    {R"((?i)[?&](?:sig|signature|key|token|access_token|x-amz-(?:signature|credential|security-token))=(?P<v>[^&\s'"]+))",
     "secret"},
    {R"((?i)(?:token|passw(?:or)?d|secret(?:[_-]?(?:access[_-]?)?key)?|api[_-]?key|access[_-]?key(?:[_-]?id)?|private[_-]?key|account[_-]?key|authorization)['"]?[ =:]+(?:(?:bearer|basic|token) +)?['"]?(?P<v>[^\s'",;]{4,}))",
     "secret"},
    {R"((?i)passw(?:or)?d['"]? ?[=:] ?['"]?(?P<v>[^\s'",;]+))", "secret"},
    {R"(\b(?P<v>(?:hf_|gh[pousr]_|github_pat_|glpat-|sk-|xox[abeoprs]-|AKIA|ASIA|AIza|eyJ|ya29\.|npm_|nvapi-|dckr_pat_|pypi-|wandb_v1_)[\w.-]{8,}))",
     "secret"},
    {R"(\b(?P<v>[0-9a-f]{40})\b)", "secret"},  // a key of Weights & Biases, or a commit
    {R"((?:^|[\s'"(\[=,<:])(?P<v>[A-Za-z][\w.+-]*@[A-Za-z0-9][\w.-]*[A-Za-z0-9]))", "user"},
    {R"((?i)(?:/home\d?|/homes|/users|\\users)(?:[/\\](?:users|home))?(?:[/\\][a-z])?[/\\](?P<v>[\w.-]{2,}))",
     "user"},
    {R"((?:^|[^\d.])(?P<v>\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3})\b)", "address"},
    {R"((?i)(?P<v>\b(?:[0-9a-f]{1,4}:){3,7}:?[0-9a-f]{1,4}\b))", "address"},
    {R"((?i)\b(?P<v>(?:fe80|f[cd][0-9a-f]{2}|[23][0-9a-f]{3})(?::[0-9a-f]{1,4}){0,6}::(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})?))",
     "address"},
    {R"(\b(?:addr|remote|peer|host|hostname|MASTER_ADDR)=\[?['"]?(?P<v>[A-Za-z][\w.-]{2,}))",
     "host"},
    {R"((?P<v>\b(?:ip|ec2)-\d{1,3}(?:-\d{1,3}){3}[\w.-]*))", "name"},
    {R"((?P<v>\b[\w-]+(?:\.[\w-]+)*\.(?:svc|local|internal|compute|cluster|com|net|org|io|edu|gov|mil|eu|de|fr|uk|ch|nl|dk|pl|cz|hu|ca|cn|jp|kr|tw|sg|au|br|ru|us|dev|cloud|ai|lan|corp|intra|hpc)\b[\w.-]*))",
     "name"},
};

// Accounts of images and machines, and words that name nobody.
constexpr std::string_view kEverybodys[] = {
    "localhost", "the job", "user",  "users",  "home",   "host",   "node",     "nodes",
    "name",      "address", "rank",  "root",   "admin",  "ubuntu", "ec2-user", "ray",
    "jovyan",    "runner",  "slurm", "kernel", "master", "worker", "pod",      "torch"};

bool is_everybodys(std::string_view name) {
  return std::find(std::begin(kEverybodys), std::end(kEverybodys), name) != std::end(kEverybodys);
}

bool is_part_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// Replaces what names somebody or something, the same each time. First learn() all texts, then
// apply() to them: who is known from a path is hidden everywhere.
class Redactor {
 public:
  Redactor() {
    for (const Shape& shape : kShapes) shapes_.emplace_back(Pattern(shape.expression), shape.kind);
  }

  void add_host(std::string name) {
    name.erase(std::min(name.find('<'), name.size()));
    add(name, "host");
    const size_t dot = name.find('.');
    const std::string label = name.substr(0, dot);
    if (dot != name.npos && label.find_first_of("0123456789-") != label.npos) add(label, "host");
  }

  void learn(const std::string& text) {
    for (const auto& [pattern, kind] : shapes_) {
      if (kind == "user")
        each_match(text, pattern, [&](std::string_view found) { add(std::string(found), "user"); });
    }
  }

  // Longer names first: "node-1" is a part of "node-12".
  void finish_learning() {
    names_.assign(known_.begin(), known_.end());
    std::sort(names_.begin(), names_.end(), [](const auto& a, const auto& b) {
      return std::make_pair(b.first.size(), a.first) < std::make_pair(a.first.size(), b.first);
    });
  }

  void apply(std::string& text) {
    for (const auto& [pattern, kind] : shapes_) {
      std::string out;
      size_t done = 0;
      each_match(text, pattern, [&](std::string_view found) {
        const size_t at = static_cast<size_t>(found.data() - text.data());
        out += text.substr(done, at - done) + word(std::string(found), kind);
        done = at + found.size();
      });
      if (done > 0) text = out + text.substr(done);
    }
    for (const auto& [name, kind] : names_) replace_name(text, name, kind);
  }

  void apply(std::vector<std::string>& texts) {
    for (std::string& text : texts) apply(text);
  }

 private:
  void add(const std::string& name, std::string_view kind) {
    const bool has_letter = std::any_of(name.begin(), name.end(), [](char c) {
      return std::isalpha(static_cast<unsigned char>(c)) != 0;
    });
    if (name.size() < kShortestName || !has_letter || is_everybodys(name)) return;
    known_.emplace(name, kind);
  }

  const std::string& word(const std::string& what, std::string_view kind) {
    const auto at = words_.find(what);
    if (at != words_.end()) return at->second;
    const size_t number = ++counts_[std::string(kind)];
    return words_.emplace(what, fmt::format("{}-{}", kind, number)).first->second;
  }

  // Calls `use` with what group v of each match holds: a view into `text`.
  template <typename Use>
  static void each_match(std::string_view text, const Pattern& pattern, const Use& use) {
    std::string_view rest = text;
    while (!rest.empty()) {
      Captures captures;
      if (!pattern.find(rest, captures)) return;
      const std::string_view found = capture(captures, "v");
      if (found.empty()) return;
      use(found);
      rest.remove_prefix(static_cast<size_t>(found.data() - rest.data()) + found.size());
    }
  }

  void replace_name(std::string& text, const std::string& name, std::string_view kind) {
    for (size_t at = text.find(name); at != text.npos; at = text.find(name, at)) {
      const size_t end = at + name.size();
      if ((at > 0 && is_part_of_name(text[at - 1])) ||
          (end < text.size() && is_part_of_name(text[end]))) {
        at = end;
        continue;
      }
      const std::string& with = word(name, kind);
      text.replace(at, name.size(), with);
      at += with.size();
    }
  }

  std::vector<std::pair<Pattern, std::string_view>> shapes_;
  std::map<std::string, std::string_view> known_;                // name, kind
  std::vector<std::pair<std::string, std::string_view>> names_;  // the same, longest first
  std::map<std::string, std::string> words_;
  std::map<std::string, size_t> counts_;
};

// Every text of a finding that may hold what a log or a file says.
template <typename Use>
void each_text(Finding& finding, const Use& use) {
  use(finding.message);
  use(finding.why);
  for (auto* list : {&finding.subject.nodes, &finding.subject.pods, &finding.subject.devices,
                     &finding.subject.files, &finding.ruled_out, &finding.fix, &finding.prevent}) {
    for (std::string& text : *list) use(text);
  }
  for (Evidence& line : finding.evidence) {
    use(line.text);
    use(line.file);
  }
}

}  // namespace

Diagnosis redacted(const Diagnosis& diagnosis) {
  Diagnosis out = diagnosis;
  Redactor redactor;
  for (const std::string& name : diagnosis.names) redactor.add_host(name);
  for (Finding& finding : out.findings) {
    for (const std::string& name : finding.subject.nodes) redactor.add_host(name);
    for (const std::string& name : finding.subject.pods) redactor.add_host(name);
    each_text(finding, [&](const std::string& text) { redactor.learn(text); });
  }
  for (const std::string& note : out.notes) redactor.learn(note);
  redactor.finish_learning();
  for (Finding& finding : out.findings) {
    each_text(finding, [&](std::string& text) { redactor.apply(text); });
  }
  redactor.apply(out.notes);
  out.names.clear();
  return out;
}

}  // namespace shanty
