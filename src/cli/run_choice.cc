#include "cli/run_choice.h"

#include <cstdio>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace shanty {

void add_run_argument(CLI::App& app, std::string& spec) {
  app.add_option("RUN", spec,
                 "a run directory, the start of a run's id, or a job's name; the newest run when "
                 "left out");
}

Result<RunDir> choose_run(std::string_view verb, const std::string& spec) {
  auto run = find_run(default_state_dir(), spec);
  if (!run) fmt::print(stderr, "shanty {}: {}\n", verb, run.error().message);
  return run;
}

}  // namespace shanty
