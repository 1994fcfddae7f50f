#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "lint/case_questions.h"
#include "lint/yaml_edits.h"
#include "text/utf8.h"

namespace shanty::lint {
namespace {

constexpr std::string_view kRankNames[] = {"RANK", "NODE_RANK", "PET_NODE_RANK", "GROUP_RANK",
                                           "LOCAL_RANK"};

// Kinds whose pods of one group are told apart by an index that is in each pod.
bool has_group_of_several(const Case& at) { return at.pods->pods.value_or(0) > 1; }

std::string_view source_of_index(WorkloadKind kind) {
  switch (kind) {
    case WorkloadKind::kJob:
    case WorkloadKind::kCronJob:
    case WorkloadKind::kJobSet:
      return "JOB_COMPLETION_INDEX of an Indexed Job";
    case WorkloadKind::kStatefulSet:
      return "the label apps.kubernetes.io/pod-index";
    case WorkloadKind::kVolcanoJob:
      return "VC_TASK_INDEX of the plugin env";
    case WorkloadKind::kLeaderWorkerSet:
      return "LWS_WORKER_INDEX";
    case WorkloadKind::kPytorchJob:
    case WorkloadKind::kTrainJob:
    case WorkloadKind::kTrainingRuntime:
      return "PET_NODE_RANK, which the operator sets";
    case WorkloadKind::kPod:
    case WorkloadKind::kDeployment:
    case WorkloadKind::kDaemonSet:
    case WorkloadKind::kKubeflowJob:
    case WorkloadKind::kRayCluster:
    case WorkloadKind::kMpiJob:
      break;
  }
  return "what the kind gives each pod";
}

void rank_written_in(const Case& at, Report& report) {
  if (!has_group_of_several(at)) return;
  for (std::string_view name : kRankNames) {
    const EnvVar* variable = find_variable(at.container->env, name);
    if (variable == nullptr || !variable->value || !count_of(*variable->value)) continue;
    report.add("RANK002", variable->value_place,
               fmt::format("{}={} is the same in all {} pods; take it from {}", name,
                           *variable->value, *at.pods->pods, source_of_index(at.work.kind)));
  }
  const auto option = at.container->command.option("node-rank");
  if (!option || !count_of(option->value)) return;
  report.add_at_word("RANK002", *option->word,
                     fmt::format("--node-rank {} is the same in all {} pods; take it from {}",
                                 option->value, *at.pods->pods, source_of_index(at.work.kind)));
}

// torchrun for several nodes that is told neither its rank nor a rendezvous that deals ranks out.
// What stands in a shell's script is looked at there.
void no_rank(const Case& at, Report& report) {
  const CommandLine& command = at.container->command;
  const auto nodes = command.option("nnodes");
  if (command.launcher() != Launcher::kTorchrun || command.has_shell() || !nodes ||
      injects_identity(at.work.kind) || !has_group_of_several(at))
    return;
  if (count_of(nodes->value).value_or(0) < 2 ||
      command.option({"node-rank", "rdzv-backend", "rdzv-endpoint", "standalone"}))
    return;
  for (std::string_view name : {"PET_NODE_RANK", "PET_RDZV_ENDPOINT", "PET_RDZV_BACKEND"}) {
    if (find_item(at.container->node["env"], "name", name)) return;
  }
  if (at.container->node["envFrom"]) return;
  report.add_at_word(
      "RANK002", *nodes->word,
      fmt::format("--nnodes {} without --node-rank: each of the {} pods says that it "
                  "is the first; take it from {}",
                  nodes->value, *at.pods->pods, source_of_index(at.work.kind)));
}

// An index that counts from 0 in this group, beside another group that has rank 0.
void rank_counted_twice(const Case& at, Report& report) {
  const auto option = at.container->command.option("node-rank");
  if (!option || !has_group_of_several(at) || at.container != at.pods->main()) return;
  bool is_bare = false;
  for (std::string_view name : {"VC_TASK_INDEX", "JOB_COMPLETION_INDEX"}) {
    is_bare |= option->value == fmt::format("$({})", name) ||
               option->value == fmt::format("${}", name) ||
               option->value == fmt::format("${{{}}}", name);
  }
  if (!is_bare) return;
  for (const PodGroup& group : at.work.groups) {
    const Container* main = &group == at.pods ? nullptr : group.main();
    const auto other = main == nullptr ? std::nullopt : main->command.option("node-rank");
    if (!other || other->value != "0") continue;
    report.add_at_word("RANK002", *option->word,
                       fmt::format("{} counts from 0 in {} too, where {} has rank 0 already: add 1",
                                   option->value, in_quotes(at.pods->role), in_quotes(group.role)));
    return;
  }
}

bool is_injected(WorkloadKind kind, std::string_view name) {
  static constexpr std::array kPet = {"PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK",
                                      "PET_MASTER_ADDR", "PET_MASTER_PORT"};
  static constexpr std::array kPlain = {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"};
  if (std::find(kPet.begin(), kPet.end(), name) != kPet.end()) return true;
  return kind == WorkloadKind::kPytorchJob &&
         std::find(kPlain.begin(), kPlain.end(), name) != kPlain.end();
}

// Needless, but right.
bool is_what_the_operator_sets(const Case& at, const EnvVar& variable) {
  const std::string master = fmt::format("{}-master-0", at.work.object->name);
  return variable.value == master || (variable.name == "MASTER_PORT" && variable.value == "23456");
}

void overridden(const Case& at, Report& report) {
  const bool is_pytorch = at.work.kind == WorkloadKind::kPytorchJob;
  const bool is_train = at.work.kind == WorkloadKind::kTrainJob;
  if (!is_pytorch && !is_train) return;
  if (is_pytorch && !at.work.spec()["pytorchReplicaSpecs"]["Master"]) return;
  for (const EnvVar& variable : at.container->env) {
    if (!is_injected(at.work.kind, variable.name)) continue;
    Finding& finding = report.add(
        "RANK003", variable.place,
        is_pytorch
            ? fmt::format("{} is set by the Training Operator too, and its value wins",
                          variable.name)
            : fmt::format("{} belongs to the Trainer: the TrainJob is refused", variable.name));
    if (is_train) finding.severity = Severity::kError;
    if (is_pytorch && is_what_the_operator_sets(at, variable)) finding.severity = Severity::kNote;
  }
}

void master_replicas(const Case& at, Report& report) {
  if (at.work.kind != WorkloadKind::kPytorchJob) return;
  const Ref roles = at.work.spec()["pytorchReplicaSpecs"];
  const Ref master = roles["Master"];
  if (master.is_mapping() && master["replicas"].text() != "1" &&
      !is_placeholder(master["replicas"].text())) {
    Finding& finding = report.add_at_key(
        "RANK004", master, "replicas",
        master["replicas"]
            ? fmt::format("{} masters: there is one, and it trains too", master["replicas"].text())
            : "the number of masters is not said: the Training Operator wants 1 written out");
    if (master["replicas"]) {
      put_edit(finding, replace_scalar(report.places(), *master["replicas"].node(), "1"));
    } else if (!master.keys().empty()) {
      put_edit(finding, insert_before(report.places(), master.keys()[0], "replicas: 1"));
    }
  }
  for (const YamlKey& role : roles.keys()) {
    if (role.text == "Master" || role.text == "Worker") continue;
    report.add("RANK004", role.place,
               fmt::format("{} is no role of a PyTorchJob; they are Master and Worker",
                           in_quotes(role.text)));
  }
  if (roles["Worker"]["replicas"].text() == "0") {
    report.add("RANK004", roles["Worker"]["replicas"],
               "0 workers: leave the entry Worker out, the webhook refuses it");
  }
}

bool has_identity_of_its_own(const Case& at) {
  return std::any_of(at.work.groups.begin(), at.work.groups.end(), [](const PodGroup& group) {
    const Container* main = group.main();
    if (main == nullptr) return false;
    const bool in_env = find_variable(main->env, "MASTER_ADDR") != nullptr ||
                        find_variable(main->env, "PET_MASTER_ADDR") != nullptr ||
                        find_variable(main->env, "PET_RDZV_ENDPOINT") != nullptr;
    return in_env || main->command.option({"master-addr", "rdzv-endpoint", "standalone"});
  });
}

void no_master(const Case& at, Report& report) {
  if (at.work.kind != WorkloadKind::kPytorchJob) return;
  const Ref spec = at.work.spec();
  const Ref roles = spec["pytorchReplicaSpecs"];
  if (!roles.is_mapping() || roles["Master"] || spec["elasticPolicy"]) return;
  if (at.work.pods() == 1 || has_identity_of_its_own(at)) return;
  report.add_at_key("RANK005", spec, "pytorchReplicaSpecs",
                    "there is no Master and no elasticPolicy: no pod gets MASTER_ADDR, WORLD_SIZE "
                    "or RANK");
}

void master_with_elastic(const Case& at, Report& report) {
  if (at.work.kind != WorkloadKind::kPytorchJob) return;
  const Ref spec = at.work.spec();
  const Ref elastic = spec["elasticPolicy"];
  if (!elastic.is_mapping()) return;
  if (spec["pytorchReplicaSpecs"]["Master"]) {
    report.add_at_key("RANK006", spec, "elasticPolicy",
                      "elasticPolicy beside a Master: the rendezvous is at worker-0 and counts "
                      "workers only, so the Master is not in the world");
  }
  if (elastic["standalone"].is_true()) {
    report.add("RANK006", elastic["standalone"],
               "standalone: true puts an empty PET_STANDALONE into the pods, and torchrun ends "
               "with a ValueError");
  }
  const std::string_view backend = elastic["rdzvBackend"].text();
  if (backend.starts_with("etcd")) {
    report.add("RANK006", elastic["rdzvBackend"],
               fmt::format("the backend {} needs the v2 API of etcd, which etcd 3.6 no longer has",
                           backend));
  }
}

void container_name(const Case& at, Report& report) {
  if (at.work.kind != WorkloadKind::kPytorchJob || !at.pods->spec["containers"].is_sequence())
    return;
  if (find_item(at.pods->spec["containers"], "name", "pytorch")) return;
  const auto containers = at.pods->spec["containers"].items();
  if (containers.empty()) return;
  const Ref name = Ref(containers[0])["name"];
  if (is_placeholder(name.text())) return;
  Finding& finding = report.add("RANK008", name ? name : Ref(containers[0]),
                                "no container is named \"pytorch\": the PyTorchJob is refused");
  if (name && containers.size() == 1)
    put_edit(finding, replace_scalar(report.places(), *name.node(), "pytorch"));
}

bool is_elastic_alone(const Case& at) {
  const Ref spec = at.work.spec();
  return spec["elasticPolicy"] && !spec["pytorchReplicaSpecs"]["Master"];
}

// A runtime of another framework tells its pods their places in another way.
bool may_be_torch(const Workload& work) {
  const std::string_view runtime = work.spec()["runtimeRef"]["name"].text();
  for (std::string_view other :
       {"xgboost", "jax", "mpi", "mlx", "deepspeed", "tensorflow", "flux", "lightgbm", "paddle"}) {
    if (contains(runtime, other)) return false;
  }
  return true;
}

void plain_python(const Case& at, Report& report) {
  if (at.container != at.pods->main() || at.container->command.launcher() != Launcher::kPython)
    return;
  const bool is_pytorch = at.work.kind == WorkloadKind::kPytorchJob;
  const bool is_train = at.work.kind == WorkloadKind::kTrainJob;
  const auto written = processes_per_pod(at);
  const Word* word = at.container->command.launcher_word();
  if ((is_pytorch || is_train) && written && written->value > 1 && word != nullptr) {
    report.add_at_word("RANK009", *word,
                       fmt::format("{} processes per pod are announced and one python is started: "
                                   "it waits for the others until its timeout",
                                   written->value));
  } else if (is_train && at.work.is_spread() && word != nullptr && may_be_torch(at.work)) {
    Finding& finding = report.add_at_word(
        "RANK009", *word,
        "a TrainJob hands its pods PET_* for torchrun; plain python finds neither MASTER_ADDR nor "
        "RANK");
    finding.severity = Severity::kWarning;
  } else if (is_pytorch && is_elastic_alone(at) && word != nullptr &&
             (at.work.is_spread() || at.container->gpus() > 1)) {
    Finding& finding = report.add_at_word(
        "RANK009", *word,
        "an elasticPolicy hands the pods PET_* for torchrun; plain python finds neither "
        "MASTER_ADDR nor RANK");
    finding.severity = Severity::kWarning;
  }
}

void processes_against_gpus(const Case& at, Report& report) {
  const double gpus = at.container->gpus();
  const auto written = processes_per_pod(at);
  const bool is_spawned = at.container->command.launcher() != Launcher::kPython;
  if (gpus == 0 || !written || at.container != at.pods->main() || !is_spawned) return;
  const auto processes = static_cast<double>(written->value);
  if (processes == gpus || processes <= 0) return;
  Finding& finding = add_at(
      report, "RANK010", *written,
      processes > gpus ? fmt::format("{} on {}: two ranks meet on one card, which NCCL refuses",
                                     counted(processes, "process"), counted(gpus, "GPU"))
                       : fmt::format("{} on {}: the others are paid for and idle",
                                     counted(processes, "process"), counted(gpus, "GPU")));
  if (processes < gpus) finding.severity = Severity::kWarning;
}

struct NodeRange {
  int64_t min = 0;
  int64_t max = 0;
};

std::optional<NodeRange> range_of(std::string_view text) {
  const size_t colon = text.find(':');
  const auto min = count_of(text.substr(0, colon));
  if (colon == text.npos) return min ? std::optional(NodeRange{*min, *min}) : std::nullopt;
  const auto max = count_of(text.substr(colon + 1));
  return min && max ? std::optional(NodeRange{*min, *max}) : std::nullopt;
}

void nodes_against_pods(const Case& at, Report& report) {
  const auto option = at.container->command.option({"nnodes", "num-machines"});
  if (at.container->command.launcher() == Launcher::kNone || !option) return;
  const auto range = range_of(option->value);
  const auto pods = world_pods(at);
  if (!range || !pods || *pods == 0 || (range->min <= *pods && *pods <= range->max)) return;
  const auto count = static_cast<double>(*pods);
  Finding& finding = report.add_at_word(
      "RANK011", *option->word,
      range->min > *pods
          ? fmt::format("--nnodes {} waits for more than the {} that there will be", option->value,
                        counted(count, "pod"))
          : fmt::format("--nnodes {} for {}: those beyond are refused or train alone",
                        option->value, counted(count, "pod")));
  if (at.work.kind == WorkloadKind::kPod) finding.severity = Severity::kWarning;
}

void world_size_written_in(const Case& at, Report& report) {
  const EnvVar* variable = find_variable(at.container->env, "WORLD_SIZE");
  const bool injected = at.work.kind == WorkloadKind::kPytorchJob;
  if (variable == nullptr || !variable->value || injected) return;
  const auto written = count_of(*variable->value);
  const auto pods = world_pods(at);
  if (!written || at.container != at.pods->main()) return;
  // One pod that is told its place: the others are objects of their own.
  const bool is_one = pods.value_or(at.work.kind == WorkloadKind::kPod ? 1 : 0) == 1;
  for (std::string_view name : kRankNames) {
    const EnvVar* rank = find_variable(at.container->env, name);
    if (is_one && rank != nullptr && rank->value && count_of(*rank->value)) return;
  }
  const double gpus = std::max(at.container->gpus(), 1.0);
  const auto count = static_cast<double>(*written);
  const bool fits =
      pods && (count == static_cast<double>(*pods) || count == static_cast<double>(*pods) * gpus ||
               *written == *pods * likely_processes(at));
  if (!pods || fits) {
    Finding& finding = report.add(
        "RANK013", variable->value_place,
        fmt::format("WORLD_SIZE={} is written in: it is wrong once the number of pods changes",
                    *written));
    finding.severity = Severity::kNote;
    return;
  }
  report.add("RANK013", variable->value_place,
             fmt::format("WORLD_SIZE={} for {} with {} each: the ranks wait for others that do not "
                         "come, or leave some out",
                         *written, counted(static_cast<double>(*pods), "pod"),
                         counted(at.container->gpus(), "GPU")));
}

void job_without_index(const Case& at, Report& report) {
  if (at.work.kind != WorkloadKind::kJob && at.work.kind != WorkloadKind::kCronJob) return;
  const Ref spec = at.pods->entry;
  if (!has_group_of_several(at) || !at.work.is_training) return;
  if (spec["completionMode"].text() == "Indexed") {
    const auto completions = spec["completions"].integer();
    if (completions && *completions > *at.pods->pods) {
      report.add("RANK015", spec["completions"],
                 fmt::format("{} ranks, and only {} run at a time: the first ones wait for the "
                             "rest, which never start",
                             *completions, *at.pods->pods));
    }
    return;
  }
  Finding& finding = report.add_at_key(
      "RANK015", spec, "parallelism",
      fmt::format("{} pods of a Job that is not Indexed cannot be told apart", *at.pods->pods));
  const YamlKey* parallelism = spec.key("parallelism");
  if (parallelism != nullptr && !spec["completionMode"] && spec["completions"])
    put_edit(finding, insert_before(report.places(), *parallelism, "completionMode: Indexed"));
}

bool has_task(const Workload& work, std::string_view name) {
  return std::any_of(work.groups.begin(), work.groups.end(),
                     [&](const PodGroup& group) { return group.role == name; });
}

// The plugin's argument `--master=name`.
std::string plugin_argument(Ref arguments, std::string_view name, std::string fallback) {
  const std::string start = fmt::format("--{}=", name);
  for (const YamlNode& argument : arguments.items()) {
    if (argument.text.starts_with(start)) return argument.text.substr(start.size());
  }
  return fallback;
}

// The count in "4", or in "$(NP)", "$NP" and "${NP:-4}" where the container's env gives it.
std::optional<int64_t> count_behind(const Container& container, std::string_view value) {
  if (!value.starts_with("$")) return count_of(value);
  const bool is_braced = value.starts_with("${") || value.starts_with("$(");
  std::string_view name = value.substr(is_braced ? 2 : 1);
  if (is_braced) name = name.substr(0, name.size() - (name.empty() ? 0 : 1));
  const size_t fallback = name.find(":-");
  const EnvVar* variable = find_variable(container.env, name.substr(0, fallback));
  return variable != nullptr && variable->value ? count_of(*variable->value) : std::nullopt;
}

void mpi_slots(const Case& at, Report& report) {
  if (at.work.kind != WorkloadKind::kMpiJob) return;
  const Ref slots = at.work.spec()["slotsPerWorker"];
  const int64_t per_worker = slots ? slots.integer().value_or(0) : 1;
  int64_t workers = 0;
  int64_t gpus = 0;
  for (const PodGroup& group : at.work.groups) {
    if (group.role != "Worker") continue;
    if (!group.pods) return;
    workers = *group.pods;
    gpus = static_cast<int64_t>(group.gpus_per_pod());
    if (gpus > 0 && slots && per_worker > gpus) {
      report.add("RANK010", slots,
                 fmt::format("{} slots on {}: two ranks meet on one card", per_worker,
                             counted(static_cast<double>(gpus), "GPU")));
    }
  }
  for (const PodGroup& group : at.work.groups) {
    if (group.role != "Launcher" || group.main() == nullptr) continue;
    if (group.main()->command.launcher() == Launcher::kDeepspeed) {
      const auto on_each = group.main()->command.option("num-gpus");
      const int64_t count = on_each ? count_of(on_each->value).value_or(0) : 0;
      if (gpus == 0 || count <= gpus) continue;
      report.add_at_word("RANK010", *on_each->word,
                         fmt::format("--num_gpus counts on each node: {} processes on the {} of a "
                                     "worker",
                                     count, counted(static_cast<double>(gpus), "GPU")));
      continue;
    }
    const auto option = group.main()->command.option({"np", "n"});
    const auto processes = option ? count_behind(*group.main(), option->value) : std::nullopt;
    if (group.main()->command.launcher() != Launcher::kMpirun || !processes) continue;
    if (per_worker <= 0 || *processes <= workers * per_worker) continue;
    report.add_at_word(
        "RANK011", *option->word,
        fmt::format("{} processes for {} with {} each: mpirun finds not enough slots", *processes,
                    counted(static_cast<double>(workers), "worker"),
                    counted(static_cast<double>(per_worker), "slot")));
  }
}

void volcano_plugin(const Case& at, Report& report) {
  if (at.work.kind != WorkloadKind::kVolcanoJob) return;
  const Ref plugins = at.work.spec()["plugins"];
  const YamlKey* key = plugins.key("pytorch");
  if (key == nullptr) return;
  const std::string master = plugin_argument(plugins["pytorch"], "master", "master");
  if (has_task(at.work, master) || is_placeholder(master)) return;
  report.add(
      "RANK016", key->place,
      fmt::format("the plugin pytorch looks for a task {}, and there is none: nothing is set "
                  "in the pods",
                  in_quotes(master)));
}

// Whether the pods were meant to find each other.
bool means_one_world(const Case& at) {
  if (find_variable(at.container->env, "MASTER_ADDR") != nullptr) return true;
  if (find_variable(at.container->env, "WORLD_SIZE") != nullptr) return true;
  if (at.work.kind == WorkloadKind::kLeaderWorkerSet) return true;
  if (at.work.kind != WorkloadKind::kVolcanoJob) return false;
  const Ref spec = at.work.spec();
  return spec["plugins"].key("pytorch") != nullptr || spec["plugins"].key("svc") != nullptr ||
         spec["minAvailable"].integer().value_or(0) > 1;
}

void worlds_of_one(const Case& at, Report& report) {
  const CommandLine& command = at.container->command;
  const Word* word = command.launcher_word();
  if (command.launcher() != Launcher::kTorchrun || word == nullptr || !has_group_of_several(at))
    return;
  const bool injects = injects_identity(at.work.kind);
  const auto standalone = command.option("standalone");
  const bool is_told =
      command.option("nnodes") || find_variable(at.container->env, "PET_NNODES") != nullptr;
  if (standalone && (injects || means_one_world(at))) {
    report.add_at_word(
        "RANK017", *standalone->word,
        fmt::format("--standalone makes each of the {} pods a world of its own", *at.pods->pods));
  } else if (!injects && !is_told && !standalone && means_one_world(at)) {
    report.add_at_word("RANK017", *word,
                       fmt::format("torchrun is not told --nnodes, and reads neither MASTER_ADDR "
                                   "nor WORLD_SIZE: each of the {} pods trains alone",
                                   *at.pods->pods));
  }
}

void trainer_left_out(const Case& at, Report& report) {
  if (at.work.object->kind != "TrainJob") return;
  const Ref trainer = at.work.spec()["trainer"];
  if (!trainer) return;
  const Ref processes = trainer["numProcPerNode"];
  if (processes.text().empty() || processes.integer() || is_placeholder(processes.text())) return;
  report.add("RANK019", processes,
             fmt::format("numProcPerNode: {} is refused from Trainer 2.2 on, which takes a number",
                         in_quotes(processes.text())));
}

void old_overrides(const ManifestSet&, const Object& object, Report& report) {
  if (object.kind != "TrainJob") return;
  const Ref spec = object.root["spec"];
  for (std::string_view key : {"podSpecOverrides", "podTemplateOverrides"}) {
    if (!spec[key]) continue;
    report.add_at_key(
        "RANK019", spec, key,
        fmt::format("{} is gone from Trainer 2.2 on; it is runtimePatches there", key));
  }
  if (!spec["trainer"] && spec["runtimeRef"] && !object.is_patch) {
    report.add_at_key("RANK018", spec, "runtimeRef",
                      "there is no trainer, not even an empty one: the Trainer puts no PET_* into "
                      "the pods");
  }
}

void runtime_names(const Case& at, Report& report) {
  if (at.work.kind != WorkloadKind::kTrainingRuntime) return;
  const Ref policy = at.work.spec()["mlPolicy"];
  if (!policy["torch"]) return;
  bool has_trainer = false;
  for (const YamlNode& node : at.work.spec()["template"]["spec"]["replicatedJobs"].items()) {
    const Ref job(node);
    const Ref labels = job["template"]["metadata"]["labels"];
    if (labels["trainer.kubeflow.org/trainjob-ancestor-step"].text() != "trainer") continue;
    has_trainer = true;
    if (job["name"].text() != "node") {
      report.add("RANK018", job["name"],
                 "the trainer's replicatedJob is not named \"node\", which PET_MASTER_ADDR is made "
                 "of");
    }
    const Ref containers = job["template"]["spec"]["template"]["spec"]["containers"];
    if (containers.is_sequence() && !find_item(containers, "name", "node"))
      report.add("RANK018", containers, "the trainer has no container named \"node\"");
  }
  if (has_trainer || !at.work.spec()["template"]["spec"]["replicatedJobs"].is_sequence()) return;
  report.add_at_key("RANK018", at.work.spec()["template"]["spec"], "replicatedJobs",
                    "no replicatedJob has the label trainer.kubeflow.org/trainjob-ancestor-step: "
                    "trainer: the Trainer finds no pods to put PET_* into");
}

void env_of_job(const JobSource& job, Report& report) {
  for (const EnvVar& variable : job.env) {
    const bool is_ours = is_injected(WorkloadKind::kPytorchJob, variable.name) ||
                         variable.name == "LOCAL_RANK" || variable.name == "LOCAL_WORLD_SIZE";
    if (!is_ours) continue;
    report.add(
        "RANK003", variable.place,
        fmt::format("{} is set for each rank by its agent, and that value wins", variable.name));
  }
}

constexpr Rule kRules[] = {
    {"RANK002", ContainerRule{rank_written_in}},
    {"RANK002", ContainerRule{no_rank, Needs::kWholeObject}},
    {"RANK002", ContainerRule{rank_counted_twice, Needs::kWholeObject}},
    {"RANK003", ContainerRule{overridden}},
    {"RANK003", JobRule{env_of_job}},
    {"RANK004", WorkloadRule{master_replicas, Needs::kWholeObject}},
    {"RANK005", WorkloadRule{no_master, Needs::kWholeObject}},
    {"RANK006", WorkloadRule{master_with_elastic}},
    {"RANK008", PodRule{container_name, Needs::kWholeObject}},
    {"RANK009", ContainerRule{plain_python}},
    {"RANK010", ContainerRule{processes_against_gpus}},
    {"RANK011", ContainerRule{nodes_against_pods, Needs::kWholeObject}},
    {"RANK013", ContainerRule{world_size_written_in, Needs::kWholeObject}},
    {"RANK015", PodRule{job_without_index, Needs::kWholeObject}},
    {"RANK010 RANK011", WorkloadRule{mpi_slots, Needs::kWholeObject}},
    {"RANK016", WorkloadRule{volcano_plugin, Needs::kWholeObject}},
    {"RANK017", ContainerRule{worlds_of_one, Needs::kWholeObject}},
    {"RANK019", WorkloadRule{trainer_left_out}},
    {"RANK018 RANK019", ObjectRule{old_overrides}},
    {"RANK018", WorkloadRule{runtime_names, Needs::kWholeObject}},
};

}  // namespace

extern const std::span<const Rule> kRankRules = kRules;

}  // namespace shanty::lint
