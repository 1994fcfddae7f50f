#include <cstdio>
#include <cstdlib>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "causes/catalogue.h"
#include "causes/finding.h"
#include "cli/cli_app.h"
#include "cli/exit_codes.h"
#include "text/table.h"
#include "text/terminal.h"

namespace shanty {
namespace {

int run_explain(int argc, char** argv);

}  // namespace

extern const Verb kExplainVerb = {
    .name = "explain",
    .summary = "print the page of a cause, or list all causes",
    .examples =
        "  shanty explain SHM001             what it is, how to recognise it, what to do\n"
        "  shanty explain SHM001 --lang zh   the same in Chinese\n"
        "  shanty explain                    every code with its title",
    .hidden = false,
    .run = run_explain};

namespace {

std::string_view locale_of_messages() {
  for (const char* name : {"LC_ALL", "LC_MESSAGES", "LANG"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return {};
}

void list_causes(Language language) {
  const TerminalTraits terminal = terminal_traits(STDOUT_FILENO);
  Table table{.header = {"code", "severity", "title"}, .rows = {}, .right_aligned = {}};
  for (const Cause& cause : causes(language)) {
    table.rows.push_back({cause.code, std::string(severity_name(cause.severity)), cause.title});
  }
  const size_t width = terminal.tty ? static_cast<size_t>(terminal.width) : 0;
  fmt::print("{}", format_table(table, {.width = width, .color = terminal.colour}));
}

// The codes of the same area, for whoever mistyped one.
std::string neighbours(std::string_view code) {
  std::vector<std::string_view> codes;
  for (const Cause& cause : causes(Language::kEnglish)) codes.push_back(cause.code);
  const std::string_view near = nearest_key(code, codes);
  return near.empty() ? "" : fmt::format(", did you mean {}?", near);
}

int run_explain(int argc, char** argv) {
  std::string code;
  std::string lang;
  const AppPtr app = make_app(kExplainVerb);
  app->add_option("code", code, "a cause's code; all are listed without it")->type_name("CODE");
  app->add_option("--lang", lang, "en or zh (default: by the locale)")
      ->check(CLI::IsMember({"en", "zh"}));
  if (const auto exit_code = parse_arguments(*app, argc, argv)) return *exit_code;
  const Language language = language_of(lang.empty() ? locale_of_messages() : lang);
  if (code.empty()) {
    list_causes(language);
    return kExitDone;
  }
  const Cause* cause = find_cause(code, language);
  if (cause == nullptr) {
    fmt::print(stderr, "shanty explain: there is no cause {}{}; `shanty explain` lists all\n", code,
               neighbours(code));
    return kExitUsage;
  }
  fmt::print("{}", cause->page);
  return kExitDone;
}

}  // namespace
}  // namespace shanty
