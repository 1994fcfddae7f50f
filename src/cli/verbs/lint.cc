#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "causes/report.h"
#include "cli/cli_app.h"
#include "cli/exit_codes.h"
#include "cli/output.h"
#include "lint/fix.h"
#include "lint/hide_secrets.h"
#include "lint/lint.h"
#include "lint/walk.h"
#include "os/files.h"
#include "text/json_fields.h"
#include "text/terminal.h"
#include "text/utf8.h"
#include "text/words.h"

namespace shanty {
namespace {

int run_lint(int argc, char** argv);

}  // namespace

extern const Verb kLintVerb = {
    .name = "lint",
    .summary = "find what will bite in manifests, Dockerfiles, scripts and job files",
    .examples =
        "  shanty lint deploy/ Dockerfile train.py   everything below deploy/, and two files\n"
        "  shanty lint --fix deploy/                 makes the changes that are mechanical\n"
        "  helm template chart | shanty lint -       what a chart becomes\n"
        "  shanty lint --format github .             annotations in a workflow of GitHub\n\n"
        "A comment \"# shanty: ignore SHM001 the reason\" on the line or above it takes a finding\n"
        "away. The exit code is 1 when an error or a warning is left.",
    .hidden = false,
    .run = run_lint};

namespace {

using nlohmann::json;

enum class Format { kText, kJson, kSarif, kGithub };

struct Options {
  std::vector<std::string> paths;
  Format format = Format::kText;
  Severity least = Severity::kNote;  // of what is shown
  bool fix = false;
};

// Texts by name, with what they hold of secrets blotted out.
class Texts {
 public:
  Texts(const std::vector<lint::Source>& sources, std::span<const Finding> findings) {
    for (const lint::Source& source : sources) texts_[source.name] = source.text;
    std::map<std::string_view, std::vector<const Finding*>> secrets;
    for (const Finding& finding : findings) {
      if (finding.code == "SEC003") secrets[finding.file].push_back(&finding);
    }
    for (const auto& [file, of_file] : secrets)
      lint::hide_secrets(texts_[std::string(file)], of_file);
  }
  std::string_view find(const std::string& name) const {
    const auto found = texts_.find(name);
    return found == texts_.end() ? std::string_view() : std::string_view(found->second);
  }

 private:
  std::map<std::string, std::string> texts_;
};

std::string findings_json(std::span<const Finding> findings) {
  json list = json::array();
  for (Finding finding : findings) {
    complete(finding);
    list.push_back({{"code", finding.code},
                    {"severity", severity_name(finding.severity)},
                    {"file", finding.file},
                    {"line", finding.line},
                    {"column", finding.column},
                    {"message", finding.message},
                    {"why", finding.why},
                    {"fix", fmt::format("{}", fmt::join(finding.fix, "\n"))},
                    {"fixable", !finding.edits.empty()}});
  }
  return print_json_pretty({{"findings", std::move(list)}}) + "\n";
}

std::string in_format(Format format, std::span<const Finding> findings, const Texts& texts) {
  const SourceOf source = [&](const std::string& name) { return texts.find(name); };
  switch (format) {
    case Format::kText: {
      const TerminalTraits terminal = terminal_traits(STDOUT_FILENO);
      const size_t width = terminal.tty ? static_cast<size_t>(terminal.width) : 0;
      return findings_text(findings, source, {.color = terminal.colour, .width = width});
    }
    case Format::kJson:
      return findings_json(findings);
    case Format::kSarif:
      return findings_sarif(findings, source);
    case Format::kGithub:
      return findings_github(findings);
  }
  return "";
}

void print_summary(std::span<const Finding> findings, size_t files) {
  size_t by_severity[3] = {};
  size_t fixable = 0;
  for (const Finding& finding : findings) {
    ++by_severity[static_cast<size_t>(finding.severity)];
    fixable += finding.edits.empty() ? 0 : 1;
  }
  if (findings.empty()) {
    fmt::print(stderr, "nothing to say about {}\n", counted(files, "file"));
    return;
  }
  const std::string fix = fixable == 0 ? "" : fmt::format("; --fix mends {} of them", fixable);
  fmt::print(stderr, "{}, {} and {} in {}{}\n", counted(by_severity[0], "error"),
             counted(by_severity[1], "warning"), counted(by_severity[2], "remark"),
             counted(files, "file"), fix);
}

// Through a link to the file that it names; the file keeps its mode. One that may not be written,
// or that somebody else has changed since it was read, stays as it is.
Status write_back(const lint::Source& source, const std::string& as_read) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(source.name, error);
  struct stat before{};
  if (error || stat(path.c_str(), &before) != 0 || access(path.c_str(), W_OK) != 0)
    return errno_error("cannot write " + printable(source.name));
  const auto now = read_file(path.string(), lint::kMaxSourceBytes);
  if (!now.ok() || *now != as_read)
    return Error{printable(source.name) + " has changed since it was read; run it again"};
  TRY_STATUS(write_file_atomically(path.string(), source.text));
  if (chmod(path.c_str(), before.st_mode & 07777) != 0)
    return errno_error("cannot restore the mode of " + printable(source.name));
  return {};
}

// Writes what changed and says so on stderr.
Status fix_files(std::vector<lint::Source>& sources) {
  const std::vector<lint::Source> before = sources;
  const std::vector<Finding> settled = lint::fix_sources(sources);
  for (size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].text == before[i].text) continue;
    TRY_STATUS(write_back(sources[i], before[i].text));
    for (const Finding& finding : settled) {
      if (finding.file == sources[i].name)
        fmt::print(stderr, "fixed {}:{}: {} [{}]\n", printable(finding.file), finding.line,
                   finding.message, finding.code);
    }
  }
  return {};
}

int fail(const std::string& message, int code) {
  fmt::print(stderr, "shanty lint: {}\n", message);
  return code;
}

int lint_paths(const Options& options) {
  const bool has_stdin =
      std::find(options.paths.begin(), options.paths.end(), "-") != options.paths.end();
  if (options.fix && has_stdin)
    return fail("--fix cannot change standard input; name files", kExitUsage);
  auto walked = lint::collect_sources(options.paths);
  if (!walked.ok()) return fail(walked.error().message, kExitUsage);
  for (const std::string& problem : walked->left_out)
    fmt::print(stderr, "shanty lint: left out: {}\n", problem);
  if (walked->sources.empty())
    return fail("there is nothing to lint: no manifest, Dockerfile, script or job file",
                kExitUsage);
  if (options.fix) {
    const Status fixed = fix_files(walked->sources);
    if (!fixed.ok()) return fail(fixed.error().message, kExitEnvironment);
  }
  std::vector<Finding> findings = lint::lint(walked->sources);
  const bool bites = std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.severity != Severity::kNote;
  });
  findings.erase(std::remove_if(findings.begin(), findings.end(),
                                [&](const Finding& f) { return f.severity > options.least; }),
                 findings.end());
  Output().write(STDOUT_FILENO,
                 in_format(options.format, findings, Texts(walked->sources, findings)));
  if (options.format == Format::kText) print_summary(findings, walked->sources.size());
  return bites ? kExitProblems : kExitDone;
}

int run_lint(int argc, char** argv) {
  Options options;
  bool is_json = false;
  const AppPtr app = make_app(kLintVerb);
  const std::map<std::string, Format> formats = {{"text", Format::kText},
                                                 {"json", Format::kJson},
                                                 {"sarif", Format::kSarif},
                                                 {"github", Format::kGithub}};
  const std::map<std::string, Severity> severities = {
      {"info", Severity::kNote}, {"warning", Severity::kWarning}, {"error", Severity::kError}};
  app->add_option("path", options.paths, "files, directories, or - for standard input")
      ->required()
      ->type_name("PATH");
  app->add_option("--format", options.format, "text, json, sarif or github")
      ->transform(CLI::CheckedTransformer(formats).description(""))
      ->type_name("FORMAT");
  app->add_flag("--json", is_json, "the same as --format json");
  app->add_flag("--fix", options.fix, "make the changes that are mechanical");
  app->add_option("--severity", options.least, "show from info (default), warning or error up")
      ->transform(CLI::CheckedTransformer(severities).description(""))
      ->type_name("SEVERITY");
  if (const auto code = parse_arguments(*app, argc, argv)) return *code;
  if (is_json) options.format = Format::kJson;
  return lint_paths(options);
}

}  // namespace
}  // namespace shanty
