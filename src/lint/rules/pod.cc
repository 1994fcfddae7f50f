#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/format.h>

#include "lint/case_questions.h"
#include "lint/debug_switches.h"
#include "lint/yaml_edits.h"
#include "text/utf8.h"

namespace shanty::lint {
namespace {

constexpr size_t kMaxNameBytes = 63;

bool is_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

// What YAML 1.1, as Kubernetes reads it, takes for something else than text.
bool is_no_text(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::kScalar || node.is_quoted) return false;
  const std::string& text = node.text;
  for (std::string_view word : {"true", "false", "True", "False", "TRUE", "FALSE", "yes", "no",
                                "Yes", "No", "on", "off", "On", "Off", "YES", "NO", "ON", "OFF"}) {
    if (text == word) return true;
  }
  return is_number(text) && text.find_first_of("iInN") == std::string::npos;
}

void unquoted(const Case& at, Report& report) {
  for (const EnvVar& variable : at.container->env) {
    if (variable.value_node == nullptr || !is_no_text(*variable.value_node)) continue;
    Finding& finding = report.add(
        "POD001", variable.value_place,
        fmt::format("the value of {} is {} to YAML and must be text: the object is refused",
                    variable.name, is_number(*variable.value) ? "a number" : "a boolean"));
    put_edit(finding,
             replace_scalar(report.places(), *variable.value_node, "\"" + *variable.value + "\""));
  }
}

void twice(const Case& at, Report& report) {
  std::set<std::string_view> seen;
  for (const EnvVar& variable : at.container->env) {
    if (seen.insert(variable.name).second) continue;
    report.add("POD002", variable.place,
               fmt::format("{} is given twice; the last one counts", variable.name));
  }
}

void mount_without_volume(const Case& at, Report& report) {
  const bool is_open = at.work.kind == WorkloadKind::kLeaderWorkerSet ||
                       at.work.kind == WorkloadKind::kTrainingRuntime || !at.pods->spec;
  if (is_open) return;
  const Ref templates = at.work.spec()["volumeClaimTemplates"];
  for (const YamlNode& node : at.container->node["volumeMounts"].items()) {
    const Ref name = Ref(node)["name"];
    if (name.text().empty() || is_placeholder(name.text()) || volume_named(*at.pods, name.text()))
      continue;
    const bool is_claimed =
        std::any_of(templates.items().begin(), templates.items().end(), [&](const YamlNode& claim) {
          return Ref(claim)["metadata"]["name"].text() == name.text();
        });
    if (is_claimed) continue;
    report.add("POD003", name,
               fmt::format("no volume of the pod is named {}: the object is refused",
                           in_quotes(name.text())));
  }
}

void command_as_text(const Case& at, Report& report) {
  for (std::string_view key : {"command", "args"}) {
    const Ref value = at.container->node[key];
    if (!value.is(YamlNode::Kind::kScalar) || is_placeholder(value.text())) continue;
    report.add("POD004", value,
               fmt::format("{} is text and must be a list of words: the object is refused", key));
  }
  // KubeRay hands the command to a shell.
  const bool is_for_shell = at.work.kind == WorkloadKind::kRayCluster;
  const Ref command = at.container->node["command"];
  if (!command.is_sequence() || command.items().size() != 1 || is_for_shell) return;
  const std::string& word = command.items()[0].text;
  const bool has_words =
      word.find(' ') != std::string::npos && word.find('\n') == std::string::npos;
  if (!has_words || is_placeholder(word)) return;
  report.add(
      "POD004", command.items()[0],
      fmt::format("{} is one word with blanks in it: no program has that name", in_quotes(word)));
}

// "$NAME" or "${NAME}" that nobody expands: Kubernetes knows $(NAME) only.
std::string_view shell_variable(std::string_view text) {
  const size_t at = text.find('$');
  if (at == text.npos || at + 1 >= text.size()) return {};
  size_t end = at + 1;
  const bool braced = text[end] == '{';
  if (braced) ++end;
  const size_t start = end;
  while (end < text.size() && ((text[end] >= 'A' && text[end] <= 'Z') || text[end] == '_' ||
                               (text[end] >= '0' && text[end] <= '9' && end > start)))
    ++end;
  if (end == start) return {};
  if (braced && (end >= text.size() || text[end] != '}')) return {};
  return text.substr(at, end - at + (braced ? 1 : 0));
}

void no_shell(const Case& at, Report& report) {
  const Container& container = *at.container;
  const bool is_for_shell =
      container.command.has_shell() || at.work.kind == WorkloadKind::kRayCluster;
  if (is_for_shell || !container.node["command"].is_sequence()) return;
  for (const Word& word : container.command.words()) {
    const std::string_view variable = shell_variable(word.text);
    if (variable.empty()) continue;
    const std::string name(variable.substr(variable[1] == '{' ? 2 : 1,
                                           variable.size() - (variable[1] == '{' ? 3 : 1)));
    // Without such a variable in the pod it is for whoever fills in the file.
    const bool is_of_pod = find_variable(container.env, name) != nullptr || name == "RANK" ||
                           name == "WORLD_SIZE" || name == "MASTER_ADDR" || name == "MASTER_PORT" ||
                           name == "JOB_COMPLETION_INDEX" || name == "HOSTNAME";
    if (!is_of_pod) continue;
    Finding& finding = report.add_at_word(
        "POD005", word,
        fmt::format("{} is handed over as it stands: there is no shell, and Kubernetes expands "
                    "$(NAME) only",
                    variable));
    if (find_variable(container.env, name) == nullptr) continue;
    std::string fixed = word.text;
    fixed.replace(fixed.find(variable), variable.size(), "$(" + name + ")");
    if (fixed.find('$', fixed.find("$(") + 1) == std::string::npos && word.node->text == word.text)
      put_edit(finding, replace_scalar(report.places(), *word.node, "\"" + fixed + "\""));
  }
}

struct OldVersion {
  std::string_view kind;
  std::string_view api_version;
  std::string_view instead;
};

constexpr OldVersion kOldVersions[] = {
    {"CronJob", "batch/v1beta1", "batch/v1"},
    {"CronJob", "batch/v2alpha1", "batch/v1"},
    {"Deployment", "extensions/v1beta1", "apps/v1"},
    {"Deployment", "apps/v1beta1", "apps/v1"},
    {"Deployment", "apps/v1beta2", "apps/v1"},
    {"StatefulSet", "apps/v1beta1", "apps/v1"},
    {"PyTorchJob", "kubeflow.org/v1alpha2", "kubeflow.org/v1"},
    {"PyTorchJob", "kubeflow.org/v1beta1", "kubeflow.org/v1"},
    {"PyTorchJob", "kubeflow.org/v1beta2", "kubeflow.org/v1"},
    {"MPIJob", "kubeflow.org/v1alpha1", "kubeflow.org/v2beta1"},
    {"MPIJob", "kubeflow.org/v1alpha2", "kubeflow.org/v2beta1"},
    {"MPIJob", "kubeflow.org/v1beta1", "kubeflow.org/v2beta1"},
    {"JobSet", "jobset.x-k8s.io/v1alpha1", "jobset.x-k8s.io/v1alpha2"},
    {"TrainJob", "trainer.kubeflow.org/v2alpha1", "trainer.kubeflow.org/v1alpha1"},
    {"TrainingRuntime", "trainer.kubeflow.org/v2alpha1", "trainer.kubeflow.org/v1alpha1"},
    {"ClusterTrainingRuntime", "trainer.kubeflow.org/v2alpha1", "trainer.kubeflow.org/v1alpha1"},
    {"RayJob", "ray.io/v1alpha1", "ray.io/v1"},
    {"RayCluster", "ray.io/v1alpha1", "ray.io/v1"},
};

// Kinds that only one API group has; where a fork has them too, both are here.
struct KnownGroup {
  std::string_view kind;
  std::string_view group;
  std::string_view instead;
  std::string_view fork = "";
};

constexpr KnownGroup kGroups[] = {
    {"JobSet", "jobset.x-k8s.io", "jobset.x-k8s.io/v1alpha2"},
    {"TrainJob", "trainer.kubeflow.org", "trainer.kubeflow.org/v1alpha1"},
    {"TrainingRuntime", "trainer.kubeflow.org", "trainer.kubeflow.org/v1alpha1"},
    {"ClusterTrainingRuntime", "trainer.kubeflow.org", "trainer.kubeflow.org/v1alpha1"},
    {"PyTorchJob", "kubeflow.org", "kubeflow.org/v1", "training.kubedl.io"},
    {"MPIJob", "kubeflow.org", "kubeflow.org/v2beta1", "training.kubedl.io"},
    {"RayJob", "ray.io", "ray.io/v1"},
    {"RayCluster", "ray.io", "ray.io/v1", "cluster.ray.io"},
    {"LeaderWorkerSet", "leaderworkerset.x-k8s.io", "leaderworkerset.x-k8s.io/v1"},
};

void other_group(const ManifestSet&, const Object& object, Report& report) {
  // The kustomization of kustomize's own objects, and objects of other makers, are left alone.
  const std::string_view group = object.api_group();
  for (const KnownGroup& known : kGroups) {
    if (object.kind != known.kind || group == known.group || group == known.fork ||
        is_placeholder(object.api_version))
      continue;
    report.add("POD006", object.root["apiVersion"],
               fmt::format("no operator serves {} as {}; it is {}", known.kind,
                           printable(object.api_version), known.instead));
  }
}

void old_version(const ManifestSet&, const Object& object, Report& report) {
  for (const OldVersion& old : kOldVersions) {
    if (object.kind != old.kind || object.api_version != old.api_version) continue;
    const bool is_served = old.kind.substr(0, 3) == "Ray";
    Finding& finding = report.add(
        "POD006", object.root["apiVersion"],
        fmt::format("{} {} {}; it is {}", old.kind, old.api_version,
                    is_served ? "is on its way out" : "is no longer served", old.instead));
    if (is_served) finding.severity = Severity::kNote;
  }
}

// The longest name that is made of the object's, with the index of its last pod.
std::string longest_name(const Case& at) {
  const std::string name(at.work.object->name);
  const int64_t last = std::max<int64_t>(at.pods->pods.value_or(1), 1) - 1;
  switch (at.work.kind) {
    case WorkloadKind::kPytorchJob: {
      std::string role(at.pods->role);
      for (char& c : role) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      return fmt::format("{}-{}-{}", name, role, last);
    }
    case WorkloadKind::kMpiJob:
      return fmt::format("{}-worker-{}", name, last);
    case WorkloadKind::kVolcanoJob:
      return fmt::format("{}-{}-{}", name, at.pods->role, last);
    case WorkloadKind::kJobSet:
      return fmt::format("{}-{}-0-{}-abcde", name, at.pods->role, last);
    case WorkloadKind::kJob:
      return at.pods->entry["completionMode"].text() == "Indexed" ? fmt::format("{}-{}", name, last)
                                                                  : name;
    case WorkloadKind::kPod:
    case WorkloadKind::kCronJob:
    case WorkloadKind::kDeployment:
    case WorkloadKind::kStatefulSet:
    case WorkloadKind::kDaemonSet:
    case WorkloadKind::kKubeflowJob:
    case WorkloadKind::kTrainJob:
    case WorkloadKind::kTrainingRuntime:
    case WorkloadKind::kRayCluster:
    case WorkloadKind::kLeaderWorkerSet:
      break;
  }
  return "";
}

void long_name(const Case& at, Report& report) {
  if (at.work.object->name.empty() || is_placeholder(at.work.object->name)) return;
  const std::string longest = longest_name(at);
  if (longest.size() <= kMaxNameBytes) return;
  report.add("POD007", at.work.metadata()["name"],
             fmt::format("the name {} that is made of this one has {} characters; {} are the most",
                         in_quotes(longest), longest.size(), kMaxNameBytes));
}

void pinned(const Case& at, Report& report) {
  const Ref spec = at.pods->spec;
  if (at.pods->gpus_per_pod() == 0 || !at.work.is_training) return;
  if (spec["nodeName"] && !is_placeholder(spec["nodeName"].text())) {
    report.add_at_key("SCHED001", spec, "nodeName",
                      "nodeName goes past the scheduler: nothing checks whether the node has the "
                      "GPUs free");
  }
  const Ref host = spec["nodeSelector"]["kubernetes.io/hostname"];
  if (host.text().empty() || is_placeholder(host.text())) return;
  Finding& finding = report.add_at_key(
      "SCHED001", spec["nodeSelector"], "kubernetes.io/hostname",
      fmt::format("{} can only run on the node {}", pods_named(at), in_quotes(host.text())));
  finding.severity = Severity::kNote;
}

void old_labels(const Case& at, Report& report) {
  const Ref selector = at.pods->spec["nodeSelector"];
  struct OldLabel {
    std::string_view name;
    std::string_view instead;
  };
  constexpr OldLabel kOld[] = {
      {"beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"},
      {"beta.kubernetes.io/arch", "kubernetes.io/arch"},
      {"beta.kubernetes.io/os", "kubernetes.io/os"},
      {"failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"},
      {"failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"},
      {"nvidia.com/cuda.driver.major", "nvidia.com/cuda.driver-version.major"},
      {"nvidia.com/cuda.runtime.major", "nvidia.com/cuda.runtime-version.major"},
  };
  for (const OldLabel& old : kOld) {
    const YamlKey* key = selector.key(old.name);
    if (key == nullptr) continue;
    Finding& finding =
        report.add("SCHED002", key->place,
                   fmt::format("the label {} is deprecated; it is {}", old.name, old.instead));
    put_edit(finding, replace_key(report.places(), *key, old.instead));
  }
}

void check_debugging(const Environment& env, Report& report) {
  for (const EnvVar& variable : env) {
    if (!variable.value) continue;
    const std::string_view effect = debugging_effect(variable.name, *variable.value);
    if (effect.empty()) continue;
    report.add("PERF001", variable.value_place,
               fmt::format("{}={} is for debugging: {}", variable.name, *variable.value, effect));
  }
}

void slow_debugging(const Case& at, Report& report) { check_debugging(at.container->env, report); }

void slow_debugging_in_image(const Dockerfile& file, Report& report) {
  check_debugging(file.env, report);
}

// Where a kind says what pods it runs: one of these keys of its spec. A kind without an entry may
// have none.
struct PlaceOfPods {
  WorkloadKind kind;
  std::string_view key;
  std::string_view or_key = "";
};
constexpr PlaceOfPods kPlacesOfPods[] = {
    {WorkloadKind::kPytorchJob, "pytorchReplicaSpecs"},
    {WorkloadKind::kMpiJob, "mpiReplicaSpecs"},
    {WorkloadKind::kJobSet, "replicatedJobs"},
    {WorkloadKind::kVolcanoJob, "tasks"},
    {WorkloadKind::kLeaderWorkerSet, "leaderWorkerTemplate"},
};
constexpr PlaceOfPods kPlaceOfRayJob = {WorkloadKind::kRayCluster, "rayClusterSpec",
                                        "clusterSelector"};

const PlaceOfPods* place_of_pods(const Workload& work) {
  if (work.object->kind == "RayJob") return &kPlaceOfRayJob;
  for (const PlaceOfPods& place : kPlacesOfPods) {
    if (place.kind == work.kind) return &place;
  }
  return nullptr;
}

bool is_empty(Ref value) { return !value || value.items().empty(); }

void no_pods(const Case& at, Report& report) {
  const PlaceOfPods* place = place_of_pods(at.work);
  const Ref spec = at.work.spec();
  if (place == nullptr || at.work.object->is_patch || !spec) return;
  const bool has_other = !place->or_key.empty() && spec[place->or_key];
  if (has_other || !is_empty(spec[place->key]) || is_placeholder(spec[place->key].text())) return;
  report.add_at_key("POD008", at.work.object->root, "spec",
                    fmt::format("this {} names no pods to run: spec.{} is missing or empty",
                                at.work.object->kind, place->key));
}

bool is_python(std::string_view word) {
  const std::string_view name = word.substr(word.rfind('/') + 1);
  return name == "python" || name == "python3";
}

// [torchrun, --nproc-per-node=8, python, train.py]. What a shell runs is read as a script.
void interpreter_for_script(const Case& at, Report& report) {
  const CommandLine& command = at.container->command;
  const Launcher by = command.launcher();
  const bool starts_python =
      by == Launcher::kTorchrun || by == Launcher::kAccelerate || by == Launcher::kDeepspeed;
  if (!starts_python || command.has_shell() || command.option("no-python")) return;
  const std::vector<Word>& words = command.words();
  const size_t first = static_cast<size_t>(command.launcher_word() - words.data()) + 1;
  for (size_t i = first; i + 1 < words.size(); ++i) {
    if (!is_python(words[i].text) || !words[i + 1].text.ends_with(".py")) continue;
    report.add_at_word("RUN045", words[i],
                       fmt::format("{} starts Python by itself and takes \"{}\" for the script",
                                   command.launcher_word()->text, words[i].text));
    return;
  }
}

constexpr Rule kRules[] = {
    {"POD001", ContainerRule{unquoted}},
    {"POD002", ContainerRule{twice}},
    {"POD003", ContainerRule{mount_without_volume, Needs::kWholeObject}},
    {"POD004", ContainerRule{command_as_text}},
    {"POD005", ContainerRule{no_shell}},
    {"POD006", ObjectRule{old_version}},
    {"POD006", ObjectRule{other_group}},
    {"POD007", PodRule{long_name}},
    {"POD008", WorkloadRule{no_pods}},
    {"RUN045", ContainerRule{interpreter_for_script}},
    {"SCHED001", PodRule{pinned}},
    {"SCHED002", PodRule{old_labels}},
    {"PERF001", ContainerRule{slow_debugging}},
    {"PERF001", DockerfileRule{slow_debugging_in_image}},
};

}  // namespace

extern const std::span<const Rule> kPodRules = kRules;

}  // namespace shanty::lint
