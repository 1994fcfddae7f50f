#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "lint/case_questions.h"
#include "text/utf8.h"

namespace shanty::lint {
namespace {

bool takes_part(const PodGroup& group) {
  const Container* main = group.main();
  if (main == nullptr) return false;
  const Launcher launcher = main->command.launcher();
  return group.gpus_per_pod() > 0 || (launcher != Launcher::kNone && launcher != Launcher::kPython);
}

std::optional<Written> written_option(const CommandLine& command,
                                      std::initializer_list<std::string_view> names) {
  const auto option = command.option(names);
  const auto count = option ? count_of(option->value) : std::nullopt;
  if (!count) return {};
  return Written{*count, {}, option->word};
}

std::optional<Written> written_variable(const Environment& env, std::string_view name) {
  const EnvVar* variable = find_variable(env, name);
  const auto count =
      variable != nullptr && variable->value ? count_of(*variable->value) : std::nullopt;
  if (!count) return {};
  return Written{*count, variable->value_node, nullptr};
}

std::optional<Written> written_value(Ref value) {
  const auto count = count_of(value.text());
  if (!count) return {};
  return Written{*count, value, nullptr};
}

// Bare pods of one file that look like one world.
std::optional<int64_t> pods_beside(const Case& at) {
  int64_t count = 0;
  for (const Workload* work : at.set.workloads_around(*at.work.object)) {
    const bool is_peer = work->kind == WorkloadKind::kPod && work->is_training &&
                         work->object->source == at.work.object->source;
    count += is_peer ? 1 : 0;
  }
  return count > 1 ? std::optional(count) : std::nullopt;
}

std::string without_port(std::string_view endpoint) {
  const size_t colon = endpoint.rfind(':');
  if (colon == endpoint.npos || endpoint.find(':') != colon) return std::string(endpoint);
  return std::string(endpoint.substr(0, colon));
}

std::string without_slash(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return std::string(path);
}

}  // namespace

std::string counted(double count, std::string_view noun) {
  const std::string_view ending = count == 1 ? "" : noun.back() == 's' ? "es" : "s";
  return fmt::format("{} {}{}", count, noun, ending);
}

std::string pods_named(const Case& at) {
  const bool is_single = at.pods == nullptr || at.pods->role.empty() || at.work.groups.size() == 1;
  if (is_single) return at.work.is_spread() ? "each pod" : "the pod";
  return "the pods of " + in_quotes(at.pods->role);
}

bool injects_identity(WorkloadKind kind) {
  return kind == WorkloadKind::kPytorchJob || kind == WorkloadKind::kTrainJob ||
         kind == WorkloadKind::kTrainingRuntime;
}

bool runs_to_end(const Workload& work) {
  switch (work.kind) {
    case WorkloadKind::kJob:
    case WorkloadKind::kCronJob:
    case WorkloadKind::kPytorchJob:
    case WorkloadKind::kKubeflowJob:
    case WorkloadKind::kTrainJob:
    case WorkloadKind::kTrainingRuntime:
    case WorkloadKind::kJobSet:
    case WorkloadKind::kVolcanoJob:
    case WorkloadKind::kMpiJob:
      return true;
    case WorkloadKind::kPod:
    case WorkloadKind::kDeployment:
    case WorkloadKind::kStatefulSet:
    case WorkloadKind::kDaemonSet:
    case WorkloadKind::kLeaderWorkerSet:
      return false;
    case WorkloadKind::kRayCluster:
      return work.object->kind == "RayJob";
  }
  return false;
}

bool holds_accelerators(const Workload& work) {
  return work.gpus() > 0 ||
         std::any_of(work.groups.begin(), work.groups.end(), [](const PodGroup& group) {
           return std::any_of(
               group.containers.begin(), group.containers.end(),
               [](const Container& container) { return container.limit("google.com/tpu") > 0; });
         });
}

std::optional<int64_t> world_pods(const Case& at) {
  if (at.work.kind == WorkloadKind::kPod) return pods_beside(at);
  if (at.work.kind == WorkloadKind::kTrainingRuntime) return {};
  int64_t count = 0;
  for (const PodGroup& group : at.work.groups) {
    const bool counts =
        &group == at.pods || takes_part(group) || at.work.kind == WorkloadKind::kPytorchJob;
    if (!counts) continue;
    if (!group.pods) return {};
    count += *group.pods;
  }
  return count;
}

std::optional<Written> processes_per_pod(const Case& at) {
  const Container* main = at.container != nullptr ? at.container : at.pods->main();
  if (main == nullptr) return {};
  const CommandLine& command = main->command;
  if (command.launcher() == Launcher::kDeepspeed) {
    if (auto found = written_option(command, {"num-gpus"})) return found;
  }
  if (auto found = written_option(command, {"nproc-per-node"})) return found;
  if (auto found = written_variable(main->env, "PET_NPROC_PER_NODE")) return found;
  if (at.work.kind == WorkloadKind::kPytorchJob) {
    const Ref spec = at.work.spec();
    if (auto found = written_value(spec["nprocPerNode"])) return found;
    return written_value(spec["elasticPolicy"]["nProcPerNode"]);
  }
  if (at.work.kind == WorkloadKind::kTrainJob)
    return written_value(at.work.spec()["trainer"]["numProcPerNode"]);
  return {};
}

int64_t likely_processes(const Case& at) {
  if (const auto written = processes_per_pod(at)) return std::max<int64_t>(written->value, 1);
  const Container* main = at.container != nullptr ? at.container : at.pods->main();
  const bool has_launcher = main != nullptr && main->command.launcher() != Launcher::kPython;
  const auto gpus = static_cast<int64_t>(main == nullptr ? 0 : main->gpus());
  return has_launcher ? std::max<int64_t>(gpus, 1) : 1;
}

std::optional<Written> loader_workers(const Case& at) {
  const Container& container = *at.container;
  if (auto found =
          written_option(container.command, {"num-workers", "workers", "dataloader-num-workers",
                                             "n-workers", "data-workers", "num-data-workers"}))
    return found;
  for (std::string_view name : {"NUM_WORKERS", "DATALOADER_NUM_WORKERS", "DATA_WORKERS"}) {
    if (auto found = written_variable(container.env, name)) return found;
  }
  return {};
}

Ref volume_named(const PodGroup& pods, std::string_view name) {
  return find_item(pods.spec["volumes"], "name", name);
}

Ref mount_of(const Container& container, std::string_view path) {
  const std::string wanted = without_slash(path);
  Ref best;
  size_t best_bytes = 0;
  for (const YamlNode& mount : container.node["volumeMounts"].items()) {
    const std::string at = without_slash(Ref(mount)["mountPath"].text());
    const bool holds = wanted == at || wanted.starts_with(at == "/" ? at : at + "/");
    if (at.empty() || !holds || at.size() < best_bytes) continue;
    best = mount;
    best_bytes = at.size();
  }
  return best;
}

std::optional<MasterAddress> master_address(const Case& at, Report& report) {
  const Container& container = *at.container;
  for (std::string_view name : {"master-addr", "rdzv-endpoint"}) {
    const auto option = container.command.option(name);
    if (!option || option->value.empty() || contains(option->value, "$")) continue;
    const Place place = place_within(report.places(), *option->word->node, option->word->offset);
    return MasterAddress{without_port(option->value), place};
  }
  for (std::string_view name : {"MASTER_ADDR", "PET_MASTER_ADDR", "PET_RDZV_ENDPOINT"}) {
    const EnvVar* variable = find_variable(container.env, name);
    if (variable == nullptr || !variable->value || is_placeholder(*variable->value)) continue;
    if (variable->value->empty()) continue;
    return MasterAddress{without_port(*variable->value), variable->value_place};
  }
  return {};
}

Finding& add_at(Report& report, std::string_view code, const Written& at, std::string message) {
  if (at.word != nullptr) return report.add_at_word(code, *at.word, std::move(message));
  return report.add(code, at.node, std::move(message));
}

}  // namespace shanty::lint
