#include "cli/run_arguments.h"

#include <CLI/CLI.hpp>

#include <cctype>
#include <cstdio>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "cli/cli_app.h"
#include "cli/exit_codes.h"

namespace shanty {
namespace {

// Both spellings, as torchrun accepts them.
std::string spellings(const std::string& name, const std::string& short_name) {
  std::string underscored = name;
  for (char& c : underscored) c = c == '-' ? '_' : c;
  const std::string both = "--" + name + (underscored == name ? "" : ",--" + underscored);
  return short_name.empty() ? both : short_name + "," + both;
}

// torchrun's variable for the option's default.
std::string variable(const std::string& name) {
  std::string out = "PET_" + name;
  for (char& c : out) c = c == '-' ? '_' : static_cast<char>(std::toupper(c));
  return out;
}

template <typename T>
CLI::Option* option(CLI::App& app, const std::string& name, T& value, const std::string& help,
                    const std::string& short_name = "") {
  return app.add_option(spellings(name, short_name), value, help)
      ->envname(variable(name))
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

CLI::Option* flag(CLI::App& app, const std::string& name, bool& value, const std::string& help,
                  const std::string& short_name = "") {
  return app.add_flag(spellings(name, short_name), value, help)->envname(variable(name));
}

// Accepted so that torchrun's command lines work; shanty has no use for them.
struct Ignored {
  std::string monitor_interval, start_method, event_log_handler, logs_specs;
  std::string log_line_prefix_template, stdout_filters, stderr_filters;
};

void add_torchrun_options(CLI::App& app, RunOptions& o, Ignored& ignored) {
  option(app, "nnodes", o.nnodes, "number of nodes (torchrun's MIN:MAX only with MIN = MAX)");
  option(app, "nproc-per-node", o.nproc_per_node, "ranks per node: a number, auto, cpu or gpu");
  option(app, "node-rank", o.node_rank, "this node's rank, when nodes are started one by one");
  option(app, "master-addr", o.master_addr, "address of the node with rank 0");
  option(app, "master-port", o.master_port, "the port of the workers' store there");
  option(app, "rdzv-endpoint", o.rdzv_endpoint, "HOST:PORT where the nodes of a job meet");
  option(app, "rdzv-backend", o.rdzv_backend, "static or c10d; both mean shanty's coordinator");
  option(app, "rdzv-id", o.rdzv_id, "the job's id, the same on every node");
  option(app, "rdzv-conf", o.rdzv_conf, "of these, join_timeout and timeout (seconds) are used");
  option(app, "max-restarts", o.max_restarts,
         "restarts of the whole gang, whatever failed (default: process faults only, 10 an hour)");
  option(app, "role", o.role, "ROLE_NAME of the workers");
  option(app, "local-addr", o.local_addr, "address under which other nodes reach this one");
  option(app, "log-dir", o.log_dir, "directory in which the run's directory is made");
  option(app, "redirects", o.redirects,
         "streams kept off the terminal: 0, 1, 2, 3, or by local rank 0:3,1:1", "-r");
  option(app, "tee", o.tee, "streams shown though redirected, as -r", "-t");
  option(app, "local-ranks-filter", o.local_ranks_filter, "local ranks shown, as in 0,1");
  option(app, "signals-to-handle", o.signals_to_handle,
         "more signals that stop the job and reach the ranks");
  option(app, "shutdown-timeout", o.shutdown_timeout, "seconds from SIGTERM to SIGKILL");
  flag(app, "standalone", o.standalone, "one job on this machine, whatever the other options");
  flag(app, "module", o.module, "the target is a module, as in python -m", "-m");
  flag(app, "no-python", o.no_python, "the target is a program, not a Python script");
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, std::string*>>{
           {"monitor-interval", &ignored.monitor_interval},
           {"start-method", &ignored.start_method},
           {"event-log-handler", &ignored.event_log_handler},
           {"logs-specs", &ignored.logs_specs},
           {"log-line-prefix-template", &ignored.log_line_prefix_template},
           {"duplicate-stdout-filters", &ignored.stdout_filters},
           {"duplicate-stderr-filters", &ignored.stderr_filters}}) {
    option(app, name, *value, "accepted, not needed")->group("Accepted from torchrun");
  }
}

void add_own_options(CLI::App& app, RunOptions& o) {
  app.add_option("--run-dir", o.run_dir, "where everything about this run is kept")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("--name", o.name, "the job's name (default: the script's)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("--python", o.python, "the interpreter (default: python3 in PATH)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("--inject", o.injects,
                 "cause a fault, as in kill:rank=1,step=60 (kill, stop, slow, exit, oom, netcut)")
      ->allow_extra_args(false);
  app.add_flag("--json", o.json, "events as JSON lines on stdout, nothing else");
  app.add_flag("-q,--quiet", o.quiet, "only the ranks' own output");
  app.add_flag("--one-log", o.one_log,
               "the nodes share the run directory and print into one file, as under srun: node 0 "
               "shows the run");
  app.add_flag("!--no-hooks", o.hooks, "do not watch the training steps");
}

// `word` with the whole name of the one option of torchrun's that it begins, as Python's argparse
// takes it; "" when it begins none or several.
std::string with_whole_name(const CLI::App& app, std::string_view word) {
  const std::string_view given = word.substr(0, word.find('='));
  if (!given.starts_with("--") || given == "--") return "";
  std::string found;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_envname().starts_with("PET_")) continue;
    for (const std::string& name : option->get_lnames()) {
      if (!name.starts_with(given.substr(2))) continue;
      if (!found.empty()) return "";
      found = "--" + name;
      break;
    }
  }
  return found.empty() ? "" : found.append(word.substr(given.size()));
}

// Parses as often as there are names that were cut short.
std::optional<int> parse_words(CLI::App& app, std::vector<std::string>& words) {
  while (true) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    if (const auto code = parse_arguments(app, static_cast<int>(argv.size()), argv.data())) {
      return code;
    }
    const std::vector<std::string> rest = app.remaining();
    const std::string whole = rest.empty() ? "" : with_whole_name(app, rest.front());
    if (whole.empty()) return std::nullopt;
    words[words.size() - rest.size()] = whole;
  }
}

}  // namespace

std::variant<RunOptions, int> read_run_arguments(const Verb& verb, int argc, char** argv) {
  RunOptions options;
  Ignored ignored;
  const AppPtr app = make_app(verb);
  app->prefix_command();
  add_torchrun_options(*app, options, ignored);
  add_own_options(*app, options);
  std::vector<std::string> words(argv, argv + argc);
  if (const auto code = parse_words(*app, words)) return *code;

  std::vector<std::string> rest = app->remaining();
  if (!rest.empty() && rest.front() == "--") rest.erase(rest.begin());
  if (rest.empty()) {
    fmt::print(stderr, "shanty run: no script or job file was given; see shanty run --help\n");
    return kExitUsage;
  }
  if (rest.front().starts_with("-")) {
    fmt::print(stderr, "shanty run: unknown option {}; options of the script go after it\n",
               rest.front());
    return kExitUsage;
  }
  options.target = rest.front();
  options.args.assign(rest.begin() + 1, rest.end());
  return options;
}

}  // namespace shanty
