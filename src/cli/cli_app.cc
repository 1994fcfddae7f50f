#include "cli/cli_app.h"

#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/exit_codes.h"

namespace shanty {

void DeleteApp::operator()(CLI::App* app) const { delete app; }

AppPtr make_app(const Verb& verb) {
  AppPtr app(new CLI::App(std::string(verb.summary), fmt::format("shanty {}", verb.name)));
  if (!verb.examples.empty()) app->footer(fmt::format("Examples:\n{}", verb.examples));
  app->get_formatter()->column_width(32);
  return app;
}

std::optional<int> parse_arguments(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return kExitDone;
  } catch (const CLI::CallForAllHelp&) {
    fmt::print("{}", app.help("", CLI::AppFormatMode::All));
    return kExitDone;
  } catch (const CLI::Error& error) {
    fmt::print(stderr, "{}: {}\n{} --help shows what it takes\n", app.get_name(), error.what(),
               app.get_name());
    return kExitUsage;
  }
}

}  // namespace shanty
