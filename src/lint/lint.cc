#include "lint/lint.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "lint/embedded.h"
#include "lint/ignore.h"
#include "lint/job_source.h"
#include "lint/manifest/manifest_set.h"
#include "lint/parallel.h"
#include "lint/python/lint_python.h"
#include "lint/rule.h"
#include "lint/shell/lint_shell.h"

namespace shanty::lint {
namespace {

// Calls `run(rule)` for each rule of that sort.
template <typename Sort, typename Run>
void each_rule(const Run& run) {
  for (const std::span<const Rule> area : all_rules()) {
    for (const Rule& rule : area) {
      if (const auto* sort = std::get_if<Sort>(&rule.run)) run(*sort);
    }
  }
}

template <typename Sort>
void run_case_rules(const Case& at, Report& report) {
  each_rule<Sort>([&](const Sort& rule) {
    if (rule.needs == Needs::kAnything || at.work.is_whole) rule.run(at, report);
  });
}

void lint_workload(const ManifestSet& set, const Workload& work, Report& report) {
  run_case_rules<WorkloadRule>({.set = set, .work = work}, report);
  for (const PodGroup& pods : work.groups) {
    run_case_rules<PodRule>({.set = set, .work = work, .pods = &pods}, report);
    for (const Container& container : pods.containers) {
      if (container.is_init) continue;
      run_case_rules<ContainerRule>(
          {.set = set, .work = work, .pods = &pods, .container = &container}, report);
    }
  }
}

// A text that is no YAML is a finding once; what came before it is linted.
void report_problems(const ManifestFile& file, Report& report) {
  for (const Diagnostic& problem : file.problems) {
    Finding& finding = report.add("RUN002", Place{problem.line, problem.column},
                                  fmt::format("the manifest cannot be read: {}", problem.message));
    if (!problem.hint.empty()) finding.fix = {problem.hint};
  }
}

// A rule for manifests and one for scripts that judge the same words of a command.
struct SameMatter {
  std::string_view of_script;
  std::string_view of_manifest;
};
constexpr SameMatter kSameMatters[] = {
    {"RUN024", "RDZV001"}, {"RUN029", "RANK017"}, {"RUN030", "RDZV003"}, {"RUN032", "RANK002"},
    {"RUN032", "RANK017"}, {"RUN034", "RANK010"}, {"RUN034", "GPU009"},  {"RUN035", "RST013"},
};
constexpr int kCommandLines = 12;  // from the launcher's name to its last option

bool is_said(const Finding& script, std::span<const Finding> findings) {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& said) {
    if (said.code == script.code && said.line == script.line) return true;
    const int lines = said.line < script.line ? script.line - said.line : said.line - script.line;
    return lines <= kCommandLines &&
           std::any_of(std::begin(kSameMatters), std::end(kSameMatters), [&](const auto& same) {
             return same.of_script == script.code && same.of_manifest == said.code;
           });
  });
}

std::vector<Finding> lint_manifest(const ManifestSet& set, const ManifestFile& file) {
  Report report(*file.source);
  if (!file.is_template) report_problems(file, report);
  for (const Object& object : file.objects) {
    each_rule<ObjectRule>([&](const ObjectRule& rule) { rule.run(set, object, report); });
  }
  for (const Workload& work : file.workloads) lint_workload(set, work, report);
  std::vector<Finding> findings = report.take();
  const size_t of_manifest = findings.size();
  for (Finding& finding : lint_embedded(file)) {
    if (!is_said(finding, {findings.data(), of_manifest})) findings.push_back(std::move(finding));
  }
  return findings;
}

std::vector<Finding> lint_dockerfile(const Source& source) {
  Report report(source);
  const Dockerfile file = read_dockerfile(source);
  each_rule<DockerfileRule>([&](const DockerfileRule& rule) { rule.run(file, report); });
  return report.take();
}

std::vector<Finding> lint_job_file(const Source& source) {
  Report report(source);
  const JobSource job = read_job_source(source);
  each_rule<JobRule>([&](const JobRule& rule) { rule.run(job, report); });
  return report.take();
}

// What is put into a text ends its lines as the text does.
void use_line_ends_of(const Source& source, std::vector<Finding>& findings) {
  const size_t end = source.text.find('\n');
  if (end == std::string::npos || end == 0 || source.text[end - 1] != '\r') return;
  for (Finding& finding : findings) {
    for (Edit& edit : finding.edits) {
      for (size_t at = edit.text.find('\n'); at != std::string::npos;
           at = edit.text.find('\n', at + 2))
        edit.text.insert(at, 1, '\r');
    }
  }
}

std::vector<Finding> lint_other(const Source& source) {
  switch (source.kind) {
    case SourceKind::kDockerfile:
      return lint_dockerfile(source);
    case SourceKind::kShell:
      return lint_shell(source);
    case SourceKind::kPython:
      return lint_python(source);
    case SourceKind::kJobFile:
      return lint_job_file(source);
    case SourceKind::kManifest:
      break;
  }
  return {};
}

// Templates are one finding for the run, at the first of them: the cure is one for all.
void report_templates(const ManifestSet& set, std::vector<Finding>& findings) {
  const ManifestFile* first = nullptr;
  size_t count = 0;
  for (const ManifestFile& file : set.files()) {
    if (!file.is_template) continue;
    if (first == nullptr) first = &file;
    ++count;
  }
  if (first == nullptr) return;
  Report report(*first->source);
  const std::string others = count == 1 ? "" : fmt::format(", nor are {} other files", count - 1);
  report.add("RUN003", Place{first->problems[0].line, first->problems[0].column},
             fmt::format("this template is not readable before it is filled in{}", others));
  findings.push_back(std::move(report.take()[0]));
}

ManifestSet read_manifests(std::span<const Source> sources) {
  std::vector<const Source*> manifests;
  for (const Source& source : sources) {
    if (source.kind == SourceKind::kManifest) manifests.push_back(&source);
  }
  std::vector<ManifestFile> files(manifests.size());
  for_each_index(files.size(), [&](size_t i) { files[i] = read_manifest(*manifests[i]); });
  return ManifestSet(std::move(files));
}

auto reading_order(const Finding& finding) {
  return std::tie(finding.file, finding.line, finding.column, finding.code, finding.message);
}

// The rules see a template once for each group that shares it through an alias.
void sort_and_unite(std::vector<Finding>& findings) {
  std::sort(findings.begin(), findings.end(),
            [](const Finding& a, const Finding& b) { return reading_order(a) < reading_order(b); });
  const auto last = std::unique(
      findings.begin(), findings.end(),
      [](const Finding& a, const Finding& b) { return reading_order(a) == reading_order(b); });
  findings.erase(last, findings.end());
}

}  // namespace

std::vector<Finding> lint(std::span<const Source> sources) {
  const ManifestSet set = read_manifests(sources);
  const std::span<const ManifestFile> files = set.files();
  std::vector<std::vector<Finding>> by_source(files.size() + sources.size());
  for_each_index(by_source.size(), [&](size_t i) {
    const bool is_manifest = i < files.size();
    const Source& source = is_manifest ? *files[i].source : sources[i - files.size()];
    if (!is_manifest && source.kind == SourceKind::kManifest) return;
    by_source[i] = is_manifest ? lint_manifest(set, files[i]) : lint_other(source);
    apply_ignores(source, by_source[i]);
    use_line_ends_of(source, by_source[i]);
  });
  std::vector<Finding> findings;
  for (auto& part : by_source) {
    findings.insert(findings.end(), std::make_move_iterator(part.begin()),
                    std::make_move_iterator(part.end()));
  }
  report_templates(set, findings);
  sort_and_unite(findings);
  return findings;
}

}  // namespace shanty::lint
