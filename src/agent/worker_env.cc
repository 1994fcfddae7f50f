#include "agent/worker_env.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include <fmt/format.h>

#include "os/process.h"

namespace shanty {
namespace {

constexpr std::string_view kLocalRank = "local_rank";

bool in_identifier(char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; }

// As torchrun does it, by Python's string.Template.safe_substitute: "$local_rank" and
// "${local_rank}" are replaced, "$$" is one "$", all else stays.
std::string replace_local_rank(std::string_view text, int local_rank) {
  const std::string braced = fmt::format("{{{}}}", kLocalRank);
  std::string out;
  while (!text.empty()) {
    const size_t dollar = std::min(text.find('$'), text.size());
    out += text.substr(0, dollar);
    text.remove_prefix(dollar);
    if (text.empty()) break;
    const std::string_view rest = text.substr(1);
    const bool named = rest.starts_with(kLocalRank) && (rest.size() == kLocalRank.size() ||
                                                        !in_identifier(rest[kLocalRank.size()]));
    if (named || rest.starts_with(braced)) {
      out += std::to_string(local_rank);
      text.remove_prefix(1 + (named ? kLocalRank.size() : braced.size()));
    } else {
      out += '$';
      text.remove_prefix(rest.starts_with('$') ? 2 : 1);
    }
  }
  return out;
}

void set_default(std::vector<std::string>& env, const std::string& name, const std::string& value) {
  if (find_variable(env, name) == nullptr) set_variable(env, name, value);
}

void set_identity(std::vector<std::string>& env, const gang::World& world, int local_rank) {
  const std::string rank = std::to_string(world.first_rank + local_rank);
  const std::string world_size = std::to_string(world.world_size);
  set_variable(env, "RANK", rank);
  set_variable(env, "LOCAL_RANK", std::to_string(local_rank));
  set_variable(env, "GROUP_RANK", std::to_string(world.node_rank));
  set_variable(env, "ROLE_RANK", rank);
  set_variable(env, "WORLD_SIZE", world_size);
  set_variable(env, "LOCAL_WORLD_SIZE", std::to_string(world.local_size));
  set_variable(env, "GROUP_WORLD_SIZE", std::to_string(world.node_count));
  set_variable(env, "ROLE_WORLD_SIZE", world_size);
  set_variable(env, "MASTER_ADDR", world.master_addr);
  set_variable(env, "MASTER_PORT", std::to_string(world.master_port));
}

void set_elastic(std::vector<std::string>& env, const AgentSpec& spec, const gang::World& world,
                 const WorkerPlace& place) {
  set_variable(env, "ROLE_NAME", spec.role);
  set_variable(env, "TORCHELASTIC_RESTART_COUNT", std::to_string(world.restart_count));
  set_variable(env, "TORCHELASTIC_MAX_RESTARTS", std::to_string(spec.elastic_max_restarts));
  set_variable(env, "TORCHELASTIC_RUN_ID", spec.elastic_run_id);
  // Rank 0 serves the TCPStore; the agent holds the port for it.
  set_variable(env, "TORCHELASTIC_USE_AGENT_STORE", "False");
  set_variable(env, "TORCHELASTIC_ERROR_FILE", place.elastic_error_file);
  set_default(env, "TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT");
  set_default(env, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  if (world.local_size * spec.nodes_here > 1) set_default(env, "OMP_NUM_THREADS", "1");
}

void set_hooks(std::vector<std::string>& env, const AgentSpec& spec, const WorkerPlace& place,
               const gang::World& world) {
  set_variable(env, "SHANTY_RUN_DIR", spec.run_dir);
  set_variable(env, "SHANTY_RUN_ID", spec.run_id);
  set_variable(env, "SHANTY_GENERATION", std::to_string(world.generation));
  set_variable(env, "SHANTY_ERROR_FILE", place.error_file);
  if (spec.total_steps > 0) {
    set_variable(env, "SHANTY_TOTAL_STEPS", std::to_string(spec.total_steps));
  }
  if (!place.checkpoint_socket.empty()) {
    set_variable(env, "SHANTY_CKPT_SOCKET", place.checkpoint_socket);
  }
  if (spec.python_dir.empty() || place.ring_fd < 0) return;
  set_variable(env, "SHANTY_RING_FD", std::to_string(place.ring_fd));
  std::string path = spec.python_dir + "/shanty_boot:" + spec.python_dir;
  const std::string* users = find_variable(env, "PYTHONPATH");
  const std::string theirs = users == nullptr ? "" : users->substr(std::strlen("PYTHONPATH="));
  // To Python an empty variable is none, but an empty part of one is the working directory.
  if (!theirs.empty()) path += ":" + theirs;
  set_variable(env, "PYTHONPATH", path);
}

}  // namespace

WorkerLaunch make_worker_launch(const AgentSpec& spec, const gang::World& world,
                                const WorkerPlace& place, std::vector<std::string> base_env) {
  WorkerLaunch launch;
  launch.argv = spec.command;
  for (size_t i = 1; i < launch.argv.size(); ++i) {
    launch.argv[i] = replace_local_rank(launch.argv[i], place.local_rank);
  }
  launch.env = std::move(base_env);
  for (const std::string& entry : spec.env) {
    const size_t equals = entry.find('=');
    set_variable(launch.env, entry.substr(0, equals), entry.substr(equals + 1));
  }
  set_identity(launch.env, world, place.local_rank);
  set_elastic(launch.env, spec, world, place);
  set_hooks(launch.env, spec, place, world);
  // Nobody but the agents and the coordinator needs the secret.
  std::erase_if(launch.env,
                [](const std::string& entry) { return entry.starts_with("SHANTY_TOKEN="); });
  return launch;
}

}  // namespace shanty
