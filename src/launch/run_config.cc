#include "launch/run_config.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <system_error>
#include <thread>

#include <unistd.h>

#include <fmt/format.h>

#include "base/hash.h"
#include "base/random.h"
#include "base/signal_name.h"
#include "base/units.h"
#include "cluster/cluster.h"
#include "cluster/visible_gpus.h"
#include "job/parse.h"
#include "os/files.h"
#include "os/process.h"
#include "run/run_dir.h"
#include "text/diagnostic.h"

namespace shanty {
namespace {

constexpr uint16_t kDefaultRendezvousPort = 29400;  // torchrun's c10d default
constexpr uint16_t kDefaultMasterPort = 29500;      // torchrun's static default
constexpr int kMaxNodes = 100'000;
constexpr int kMaxSlots = 1024;
constexpr int kMaxLocalNodes = 256;

using Failed = std::optional<ConfigError>;

ConfigError usage(std::string message) { return {std::move(message), 2}; }
ConfigError environment(std::string message) { return {std::move(message), 3}; }

std::optional<long> read_integer(std::string_view text) {
  long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_job_file(const std::string& target) {
  return target.ends_with(".yaml") || target.ends_with(".yml");
}

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

std::string base_name(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  if (name.ends_with(".py")) name.resize(name.size() - 3);
  return name;
}

bool in_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path != nullptr ? path : "/usr/bin:/bin";
  while (!rest.empty()) {
    const size_t colon = rest.find(':');
    const std::string candidate = std::string(rest.substr(0, colon)) + "/" + program;
    if (::access(candidate.c_str(), X_OK) == 0) return true;
    rest = colon == std::string_view::npos ? "" : rest.substr(colon + 1);
  }
  return false;
}

int count_gpus() {
  return static_cast<int>(visible_gpus(read_cluster().gpus, std::getenv("CUDA_VISIBLE_DEVICES")));
}

Failed read_job(RunConfig& config, const RunOptions& options) {
  config.job_file = options.target;
  const auto text = read_job_file(options.target);
  if (!text) return usage(text.error().message);
  ParsedJob parsed = parse_job(*text, options.target);
  fmt::print(stderr, "{}", format_diagnostics(parsed.diagnostics, *text, {}));
  if (!parsed.ok()) return usage(fmt::format("{} cannot be run as it is", options.target));
  config.job = std::move(parsed.job);
  for (const std::string& arg : options.args) config.job.run.args.push_back(arg);
  return std::nullopt;
}

Failed make_job_from_flags(RunConfig& config, const RunOptions& options) {
  Job& job = config.job;
  if (options.module && options.no_python) {
    return usage("--no-python and -m (--module) exclude each other");
  }
  (options.module ? job.run.module : job.run.script) = options.target;
  job.run.no_python = options.no_python;
  job.run.args = options.args;
  job.name = options.module ? options.target : base_name(options.target);
  return std::nullopt;
}

Failed read_nodes(RunConfig& config, const RunOptions& options) {
  if (options.nnodes.empty()) {
    config.nodes = static_cast<int>(config.job.nodes.max);
    return std::nullopt;
  }
  const size_t colon = options.nnodes.find(':');
  const auto min = read_integer(std::string_view(options.nnodes).substr(0, colon));
  const auto max = colon == std::string::npos
                       ? min
                       : read_integer(std::string_view(options.nnodes).substr(colon + 1));
  if (!min || !max || *min < 1 || *max < *min || *max > kMaxNodes) {
    return usage(fmt::format("--nnodes {}: expected a number of nodes from 1 to {}", options.nnodes,
                             kMaxNodes));
  }
  if (*min != *max) {
    return usage(fmt::format("--nnodes {}: elastic worlds are not supported yet; say one number",
                             options.nnodes));
  }
  config.nodes = static_cast<int>(*max);
  config.job.nodes = {static_cast<uint64_t>(*max), static_cast<uint64_t>(*max)};
  return std::nullopt;
}

Failed read_slots(RunConfig& config, const RunOptions& options) {
  const std::string& text = options.nproc_per_node;
  if (!text.empty()) {
    const int cpus = static_cast<int>(std::thread::hardware_concurrency());
    std::optional<long> number = read_integer(text);
    if (text == "cpu") number = cpus;
    const int gpus = text == "gpu" || text == "auto" ? count_gpus() : 0;
    if (text == "gpu") number = gpus;
    if (text == "auto") number = gpus > 0 ? gpus : cpus;
    if (text == "gpu" && *number == 0)
      return environment("--nproc-per-node gpu: no GPU is visible here");
    if (!number || *number < 1 || *number > kMaxSlots) {
      return usage(
          fmt::format("--nproc-per-node {}: expected a number from 1 to {}, or auto, cpu, gpu",
                      text, kMaxSlots));
    }
    config.job.gpus_per_node = static_cast<uint64_t>(*number);
  }
  config.slots = static_cast<int>(config.job.gpus_per_node);
  return std::nullopt;
}

// Which nodes run here and where the coordinator is.
Failed read_rendezvous(RunConfig& config, const RunOptions& options) {
  const bool named_place = options.node_rank || !options.rdzv_endpoint.empty() ||
                           (!options.master_addr.empty() && config.nodes > 1);
  config.several_machines = config.nodes > 1 && named_place && !options.standalone;
  if (!options.rdzv_backend.empty() && options.rdzv_backend != "static" &&
      options.rdzv_backend != "c10d") {
    return usage(
        fmt::format("--rdzv-backend {}: expected static or c10d; shanty's own "
                    "coordinator does the work of either",
                    options.rdzv_backend));
  }
  if (options.node_rank && (*options.node_rank < 0 || *options.node_rank >= config.nodes)) {
    return usage(fmt::format("--node-rank {}: expected 0 to {}, since there are {} nodes",
                             *options.node_rank, config.nodes - 1, config.nodes));
  }
  if (options.master_port && (*options.master_port < 1 || *options.master_port > 65534)) {
    return usage(fmt::format("--master-port {}: expected 1 to 65534", *options.master_port));
  }
  config.master_port = static_cast<uint16_t>(options.master_port.value_or(0));
  if (!config.several_machines) {
    if (config.nodes > kMaxLocalNodes) {
      return usage(
          fmt::format("{} nodes on one machine: at most {} can be played here; on several "
                      "machines give --rdzv-endpoint",
                      config.nodes, kMaxLocalNodes));
    }
    for (int node = 0; node < config.nodes; ++node) config.local_nodes.push_back(node);
    config.master_addr =
        options.standalone || options.master_addr.empty() ? "localhost" : options.master_addr;
    return std::nullopt;
  }
  config.local_nodes = {options.node_rank.value_or(-1)};
  if (!options.rdzv_endpoint.empty()) {
    auto endpoint = net::split_host_port(options.rdzv_endpoint, kDefaultRendezvousPort);
    if (!endpoint) return usage("--rdzv-endpoint: " + endpoint.error().message);
    if (endpoint->port == 0) {
      return usage(fmt::format("--rdzv-endpoint {}: the nodes cannot meet at port 0",
                               options.rdzv_endpoint));
    }
    config.endpoint = *endpoint;
    config.may_host = net::is_local_address(endpoint->host);
    return std::nullopt;
  }
  if (!options.node_rank) {
    return usage(
        "--nnodes above 1 with --master-addr needs --node-rank on each node; or give "
        "every node the same --rdzv-endpoint instead");
  }
  // The workers' store takes the master port itself, as under torchrun.
  config.master_addr = options.master_addr.empty() ? "127.0.0.1" : options.master_addr;
  if (config.master_port == 0) config.master_port = kDefaultMasterPort;
  config.endpoint = {config.master_addr, static_cast<uint16_t>(config.master_port + 1)};
  config.may_host = *options.node_rank == 0;
  return std::nullopt;
}

Failed read_restarts(RunConfig& config, const RunOptions& options) {
  const RestartSpec& restart = config.job.restart;
  config.max_restarts = static_cast<int>(restart.max);
  config.restart_window_s = restart.window_s;
  config.restart_on_exit = !config.job_file.empty();
  config.elastic_max_restarts = config.job_file.empty() ? 0 : config.max_restarts;
  config.join_limit_s = restart.rejoin_s;
  config.grace_s = restart.grace_s;
  if (options.max_restarts) {
    if (*options.max_restarts < 0) {
      return usage(fmt::format("--max-restarts {}: expected 0 or more", *options.max_restarts));
    }
    config.max_restarts = config.elastic_max_restarts = *options.max_restarts;
    config.restart_window_s = 0;
    config.restart_on_exit = true;
  }
  if (options.shutdown_timeout) {
    if (*options.shutdown_timeout < 0) {
      return usage(fmt::format("--shutdown-timeout {}: expected seconds, 0 or more",
                               *options.shutdown_timeout));
    }
    config.grace_s = *options.shutdown_timeout;
  }
  return std::nullopt;
}

// torchrun's --rdzv-conf "join_timeout=600,timeout=900,...".
Failed read_rdzv_conf(RunConfig& config, const RunOptions& options) {
  std::string_view rest = options.rdzv_conf;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      return usage(fmt::format("--rdzv-conf: expected KEY=VALUE, got \"{}\"", part));
    }
    const std::string_view key = part.substr(0, equals);
    if (key != "join_timeout" && key != "timeout") continue;
    const auto value = read_integer(part.substr(equals + 1));
    if (!value || *value <= 0) {
      return usage(fmt::format("--rdzv-conf {}: expected seconds above 0", part));
    }
    config.join_limit_s = static_cast<double>(*value);
  }
  return std::nullopt;
}

// torchrun's Std: 0 none, 1 stdout, 2 stderr, 3 both; "0:1,1:3" per local rank.
struct StdMap {
  std::optional<int> all;
  std::vector<std::pair<int, int>> ranks;
};

std::optional<StdMap> read_std(std::string_view text) {
  StdMap map;
  if (const auto all = read_integer(text); all && *all >= 0 && *all <= 3) {
    map.all = static_cast<int>(*all);
    return map;
  }
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
    const size_t colon = part.find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    const auto rank = read_integer(part.substr(0, colon));
    const auto value = read_integer(part.substr(colon + 1));
    if (!rank || !value || *rank < 0 || *value < 0 || *value > 3) return std::nullopt;
    map.ranks.emplace_back(static_cast<int>(*rank), static_cast<int>(*value));
  }
  return map;
}

// The streams (1 stdout, 2 stderr, 3 both) that `map` says for a local rank.
int streams_of(const StdMap& map, int local_rank) {
  if (map.all) return *map.all;
  const auto entry = std::find_if(map.ranks.begin(), map.ranks.end(),
                                  [&](const auto& e) { return e.first == local_rank; });
  return entry == map.ranks.end() ? 0 : entry->second;
}

// "0,2"; nullopt when it is no list of local ranks.
std::optional<std::vector<long>> read_filter(std::string_view text) {
  std::vector<long> ranks;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const auto rank = read_integer(text.substr(0, comma));
    if (!rank || *rank < 0) return std::nullopt;
    ranks.push_back(*rank);
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
  }
  return ranks;
}

// Whether another node shows the run.
bool leaves_it_to_the_first(const RunOptions& options) {
  return options.one_log && options.node_rank.value_or(0) > 0;
}

// A redirected stream is only in the files; a teed one is shown as well.
Failed read_output(RunConfig& config, const RunOptions& options) {
  const auto redirects = read_std(options.redirects.empty() ? "0" : options.redirects);
  const auto tee = read_std(options.tee.empty() ? "0" : options.tee);
  if (!redirects || !tee) {
    return usage(
        "-r and -t take 0 (none), 1 (stdout), 2 (stderr), 3 (both), or a map such as "
        "0:3,1:1 by local rank");
  }
  const auto filter = read_filter(options.local_ranks_filter);
  if (!filter) return usage("--local-ranks-filter: expected local ranks, as in 0,1");
  for (int rank = 0; rank < config.slots; ++rank) {
    const int hidden = streams_of(*redirects, rank) & ~streams_of(*tee, rank);
    if (hidden == 3) config.direct_log_ranks.push_back(rank);
    const bool passes =
        !leaves_it_to_the_first(options) &&
        (filter->empty() || std::find(filter->begin(), filter->end(), rank) != filter->end());
    config.shown.push_back(
        {.out = passes && (hidden & 1) == 0, .err = passes && (hidden & 2) == 0});
  }
  return std::nullopt;
}

// Where the workers start in another directory, a path that was found from this one.
std::string from_anywhere(const std::string& path, const RunSpec& run) {
  const bool stays = run.working_dir.empty() || path.find('/') == std::string::npos;
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  return stays || error ? path : absolute.string();
}

Failed check_working_dir(const RunSpec& run) {
  std::error_code ignored;
  if (run.working_dir.empty() || std::filesystem::is_directory(run.working_dir, ignored)) {
    return std::nullopt;
  }
  return usage(fmt::format("run.working_dir: {} is not a directory", run.working_dir));
}

// A script named in a job file is looked for here first, then beside the job file.
Failed find_script(RunConfig& config) {
  std::string& script = config.job.run.script;
  if (script.empty() || config.job.run.no_python) return std::nullopt;
  const bool absolute = script.starts_with('/');
  const std::string base =
      absolute || config.job.run.working_dir.empty() ? "" : config.job.run.working_dir + "/";
  if (file_exists(base + script)) return std::nullopt;
  const std::string beside = directory_of(config.job_file) + script;
  if (!absolute && !config.job_file.empty() && file_exists(beside)) {
    script = from_anywhere(beside, config.job.run);
    return std::nullopt;
  }
  return usage(fmt::format("the script {} does not exist{}", script,
                           base.empty() ? "" : " in " + config.job.run.working_dir));
}

Failed make_command(RunConfig& config, const RunOptions& options) {
  const RunSpec& run = config.job.run;
  if (Failed failed = check_working_dir(run)) return failed;
  if (Failed failed = find_script(config)) return failed;
  if (run.no_python) {
    config.command = {run.script};
  } else {
    const auto python = find_python(options.python.empty() ? run.python : options.python);
    if (!python) return environment(python.error().message);
    config.command = {from_anywhere(*python, run), "-u"};
    if (!run.module.empty()) config.command.emplace_back("-m");
    config.command.push_back(run.module.empty() ? run.script : run.module);
  }
  config.command.insert(config.command.end(), run.args.begin(), run.args.end());
  return std::nullopt;
}

// The number of "SIGUSR1"; 0 for what is no signal's name.
int signal_number(std::string_view name) {
  for (int number = 1; name.starts_with("SIG") && number < NSIG; ++number) {
    if (signal_name(number) == name) return number;
  }
  return 0;
}

bool is_ignored(int signal) {
  struct sigaction action{};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// torchrun's four stop the job always; --signals-to-handle adds to them.
Failed read_stop_signals(RunConfig& config, const RunOptions& options) {
  config.signals_to_handle = options.signals_to_handle;
  std::set<int> signals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  std::string_view rest = options.signals_to_handle;
  while (!rest.empty()) {
    const std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    const int number = signal_number(name);
    if (number == 0 || number == SIGKILL || number == SIGSTOP || number == SIGCHLD) {
      return usage(
          fmt::format("--signals-to-handle: {} is no signal that can be handled; expected names "
                      "as in SIGTERM,SIGUSR1",
                      name));
    }
    signals.insert(number);
  }
  // A process that was told to ignore it, as by nohup, is to outlive its terminal.
  if (is_ignored(SIGHUP)) signals.erase(SIGHUP);
  config.stop_signals.assign(signals.begin(), signals.end());
  return std::nullopt;
}

Failed read_identity(RunConfig& config, const RunOptions& options) {
  if (!options.name.empty()) config.job.name = options.name;
  config.elastic_run_id = options.rdzv_id;
  if (config.elastic_run_id.empty()) {
    config.elastic_run_id = config.several_machines ? "none" : hex(secure_random_bytes(8));
  }
  config.replaceable = options.replaceable;
  config.log_ranks = options.log_ranks;
  config.role = options.role;
  config.local_addr = options.local_addr;
  for (const std::string& text : options.injects) {
    auto inject = parse_inject(text);
    if (!inject) return usage(inject.error().message);
    if (inject->rank >= config.nodes * config.slots) {
      return usage(fmt::format("--inject {}: there is no rank {} in a world of {}", text,
                               inject->rank, config.nodes * config.slots));
    }
    if (inject->node_rank >= config.nodes) {
      return usage(fmt::format("--inject {}: there is no node {}, since there are {}", text,
                               inject->node_rank, config.nodes));
    }
    config.injects.push_back(*inject);
  }
  config.run_dir = options.run_dir;
  config.log_dir = options.log_dir;
  config.json = options.json;
  config.quiet = options.quiet || leaves_it_to_the_first(options);
  config.hooks = options.hooks;
  return std::nullopt;
}

}  // namespace

Result<std::string> find_python(const std::string& wanted) {
  if (!wanted.empty()) {
    if (wanted.find('/') != std::string::npos ? ::access(wanted.c_str(), X_OK) == 0
                                              : in_path(wanted)) {
      return wanted;
    }
    return Error{fmt::format("the Python interpreter {} cannot be run", wanted)};
  }
  if (const char* named = std::getenv("PYTHON_EXEC"); named != nullptr && *named != '\0') {
    return find_python(named);
  }
  if (const char* venv = std::getenv("VIRTUAL_ENV"); venv != nullptr && *venv != '\0') {
    const std::string python = std::string(venv) + "/bin/python";
    if (::access(python.c_str(), X_OK) == 0) return python;
  }
  for (const char* name : {"python3", "python"}) {
    if (in_path(name)) return std::string(name);
  }
  return Error{"no Python interpreter in PATH; name one with --python"};
}

std::vector<std::string> job_environment(const Job& job) {
  std::vector<std::string> env;
  const CheckpointSpec& checkpoint = job.checkpoint;
  std::string directory = checkpoint.dir.empty() ? checkpoint.mount : checkpoint.dir;
  if (!checkpoint.mount.empty() && directory.front() != '/') {
    directory = checkpoint.mount + "/" + directory;
  }
  if (!directory.empty()) {
    env.push_back("SHANTY_CKPT_DIR=" + directory);
    env.push_back(fmt::format("SHANTY_CKPT_KEEP={}", checkpoint.keep));
    if (checkpoint.every_s)
      env.push_back(fmt::format("SHANTY_CKPT_EVERY={:.3f}s", *checkpoint.every_s));
    if (checkpoint.milestones > 0) {
      env.push_back(fmt::format("SHANTY_CKPT_MILESTONES={}", checkpoint.milestones));
    }
  }
  for (const auto& [name, value] : job.run.env) env.push_back(name + "=" + value);
  return env;
}

net::TokenQuery token_query(const RunConfig& config) {
  return {.endpoint_host = config.endpoint.host,
          .port = config.endpoint.port,
          .rdzv_id = config.elastic_run_id,
          .state_dir = default_state_dir()};
}

std::variant<RunConfig, ConfigError> make_run_config(const RunOptions& options) {
  RunConfig config;
  const auto first = is_job_file(options.target) && !options.module && !options.no_python
                         ? read_job
                         : make_job_from_flags;
  for (const auto step :
       {first, read_nodes, read_slots, read_rendezvous, read_restarts, read_rdzv_conf, read_output,
        make_command, read_stop_signals, read_identity}) {
    if (Failed failed = step(config, options)) return *failed;
  }
  return config;
}

}  // namespace shanty
