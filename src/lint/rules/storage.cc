#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "lint/case_questions.h"
#include "text/utf8.h"

namespace shanty::lint {
namespace {

bool has_mode(Ref claim, std::string_view mode) {
  const auto modes = claim["spec"]["accessModes"].items();
  return std::any_of(modes.begin(), modes.end(),
                     [&](const YamlNode& item) { return item.text == mode; });
}

// Pods of the workloads seen from `at` that mount the claim; nothing where it cannot be known.
std::optional<int64_t> pods_with_claim(const Case& at, std::string_view claim) {
  int64_t count = 0;
  for (const Workload* work : at.set.workloads_around(*at.work.object)) {
    if (work->kind == WorkloadKind::kCronJob) continue;
    for (const PodGroup& group : work->groups) {
      for (const YamlNode& volume : group.spec["volumes"].items()) {
        if (Ref(volume)["persistentVolumeClaim"]["claimName"].text() != claim) continue;
        if (!group.pods) return {};
        count += *group.pods;
        break;
      }
    }
  }
  return count;
}

int64_t pods_of_this_workload(const Case& at, std::string_view claim) {
  int64_t count = 0;
  for (const PodGroup& group : at.work.groups) {
    for (const YamlNode& volume : group.spec["volumes"].items()) {
      if (Ref(volume)["persistentVolumeClaim"]["claimName"].text() == claim)
        count += group.pods.value_or(0);
    }
  }
  return count;
}

void shared_claim(const Case& at, Report& report) {
  for (const YamlNode& node : at.pods->spec["volumes"].items()) {
    const Ref name = Ref(node)["persistentVolumeClaim"]["claimName"];
    if (name.text().empty()) continue;
    const Object* claim = at.set.find("PersistentVolumeClaim", name.text(), *at.work.object);
    if (claim == nullptr || has_mode(claim->root, "ReadWriteMany")) continue;
    const bool is_pod = at.work.kind == WorkloadKind::kPod;
    const auto pods = is_pod ? pods_with_claim(at, name.text())
                             : std::optional(pods_of_this_workload(at, name.text()));
    if (!pods || *pods < 2) continue;
    const bool is_one_pod = has_mode(claim->root, "ReadWriteOncePod");
    if (!is_one_pod && !has_mode(claim->root, "ReadWriteOnce")) continue;
    if (!is_one_pod && has_mode(claim->root, "ReadOnlyMany")) continue;
    Finding& finding = report.add(
        "STO001", name,
        fmt::format("{} share the claim {}, which is {}: {}",
                    counted(static_cast<double>(*pods), "pod"), in_quotes(name.text()),
                    is_one_pod ? "ReadWriteOncePod" : "ReadWriteOnce",
                    is_one_pod ? "one starts, the others wait"
                               : "those on another node wait for a volume that does not come"));
    finding.evidence.push_back({claim->source->name,
                                static_cast<uint64_t>(claim->root.node()->place.line),
                                fmt::format("PersistentVolumeClaim {}", claim->name)});
    if (is_one_pod) finding.severity = Severity::kError;
  }
}

void host_path(const Case& at, Report& report) {
  if (!at.work.is_training || !at.work.is_spread()) return;
  for (const YamlNode& node : at.pods->spec["volumes"].items()) {
    const Ref volume(node);
    const std::string_view path = volume["hostPath"]["path"].text();
    const bool is_of_the_node =
        path == "/dev/shm" || path.starts_with("/dev") || path.starts_with("/sys") ||
        path.starts_with("/lib") || path.starts_with("/usr") || path.starts_with("/etc") ||
        path.starts_with("/var/run") || path.starts_with("/run") || path.starts_with("/var/log") ||
        path.starts_with("/proc") || contains(path, "nvidia") || contains(path, "docker.sock");
    if (path.empty() || path == "/" || is_of_the_node) continue;
    report.add("STO002", volume["hostPath"]["path"],
               fmt::format("{} is another directory on each node; {} pods see different files",
                           printable(path), at.work.pods().value_or(0)));
  }
}

constexpr std::array kCheckpointOptions = {"checkpoint-dir",    "checkpoint-path",
                                           "checkpoint-folder", "checkpoints-dir",
                                           "ckpt-dir",          "ckpt-path",
                                           "save-dir",          "save-path",
                                           "save-folder",       "output-dir",
                                           "out-dir",           "output-path",
                                           "snapshot-path",     "save"};
constexpr std::array kCheckpointVariables = {"CHECKPOINT_DIR", "CHECKPOINT_PATH", "CKPT_DIR",
                                             "CKPT_PATH",      "OUTPUT_DIR",      "SAVE_DIR"};

struct Target {
  std::string path;
  Place place;
  std::string name;
};

std::optional<Target> checkpoint_target(const Case& at, Report& report) {
  for (const std::string_view name : kCheckpointOptions) {
    const auto option = at.container->command.option(name);
    if (!option || !option->value.starts_with("/")) continue;
    const Place place = place_within(report.places(), *option->word->node, option->word->offset);
    return Target{option->value, place, fmt::format("--{}", name)};
  }
  for (const std::string_view name : kCheckpointVariables) {
    const EnvVar* variable = find_variable(at.container->env, name);
    if (variable == nullptr || !variable->value || !variable->value->starts_with("/")) continue;
    return Target{*variable->value, variable->value_place, std::string(name)};
  }
  return {};
}

void checkpoint_on_node(const Case& at, Report& report) {
  if (!at.work.is_training || !at.pods->spec || at.container != at.pods->main()) return;
  const auto target = checkpoint_target(at, report);
  if (!target) return;
  const Ref mount = mount_of(*at.container, target->path);
  const bool is_of_job = at.work.kind == WorkloadKind::kVolcanoJob && at.work.spec()["volumes"];
  if (!mount) {
    if (is_of_job) return;
    report.add("CKPT002", target->place,
               fmt::format("{} {} is in the container's own file system: it is gone with the "
                           "container",
                           target->name, printable(target->path)));
    return;
  }
  const Ref volume = volume_named(*at.pods, mount["name"].text());
  if (volume.key("emptyDir") != nullptr) {
    report.add("CKPT001", target->place,
               fmt::format("{} {} is on the emptyDir {}: it is gone with the pod", target->name,
                           printable(target->path), in_quotes(mount["name"].text())));
  } else if (mount["readOnly"].is_true() || volume["persistentVolumeClaim"]["readOnly"].is_true()) {
    report.add("CKPT003", target->place,
               fmt::format("{} {} is on a volume that is mounted read-only", target->name,
                           printable(target->path)));
  }
}

bool names_checkpoints(std::string_view path) {
  for (std::string_view part : {"ckpt", "checkpoint"}) {
    if (contains(path, part)) return true;
  }
  return false;
}

// A mount that is called so says what it is for, whatever the command says.
void checkpoint_mount(const Case& at, Report& report) {
  if (!at.work.is_training || !at.pods->spec || at.container != at.pods->main()) return;
  if (checkpoint_target(at, report)) return;
  for (const YamlNode& node : at.container->node["volumeMounts"].items()) {
    const Ref mount(node);
    if (!names_checkpoints(mount["mountPath"].text())) continue;
    const Ref volume = volume_named(*at.pods, mount["name"].text());
    if (volume.key("emptyDir") == nullptr) continue;
    report.add("CKPT001", mount["mountPath"],
               fmt::format("{} is on the emptyDir {}: it is gone with the pod",
                           printable(mount["mountPath"].text()), in_quotes(mount["name"].text())));
  }
}

void job_checkpoint(const JobSource& job, Report& report) {
  const Job& parsed = job.parsed.job;
  const Ref root(job.root);
  if (!job.parsed.ok() || parsed.nodes.max < 2 || parsed.run.image.empty()) return;
  if (!parsed.checkpoint.claim.empty() || !root["checkpoint"]) return;
  report.add("CKPT002", root["checkpoint"],
             fmt::format("{} nodes and no checkpoint.claim: on Kubernetes checkpoints go with the "
                         "pods",
                         parsed.nodes.max));
}

constexpr Rule kRules[] = {
    {"STO001", PodRule{shared_claim}},
    {"STO002", PodRule{host_path}},
    {"CKPT001 CKPT002 CKPT003", ContainerRule{checkpoint_on_node, Needs::kWholeObject}},
    {"CKPT001", ContainerRule{checkpoint_mount, Needs::kWholeObject}},
    {"CKPT002", JobRule{job_checkpoint}},
};

}  // namespace

extern const std::span<const Rule> kStorageRules = kRules;

}  // namespace shanty::lint
