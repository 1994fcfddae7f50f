#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/units.h"
#include "lint/case_questions.h"
#include "lint/manifest/quantity.h"
#include "lint/yaml_edits.h"
#include "text/utf8.h"

namespace shanty::lint {
namespace {

constexpr double kFewCpusPerGpu = 2;
constexpr double kGoodCpusPerGpu = 4;
constexpr double kFewBytesPerGpu = 4.0 * (1u << 30);

// Calls `see(name, value)` for each extended resource of one side, "limits" or "requests".
template <typename See>
void each_extended(const Container& container, std::string_view side, const See& see) {
  const Ref list = container.resources()[side];
  if (!list.is_mapping()) return;
  for (size_t i = 0; i < list.keys().size(); ++i) {
    if (is_extended_resource(list.keys()[i].text)) see(list.keys()[i], Ref(list.items()[i]));
  }
}

void without_limit(const Case& at, Report& report) {
  const Ref resources = at.container->resources();
  each_extended(*at.container, "requests", [&](const YamlKey& key, Ref value) {
    if (resources["limits"][key.text] || is_placeholder(value.text())) return;
    Finding& finding = report.add(
        "GPU001", key.place,
        fmt::format("{} is requested but has no limit: the pod is refused", in_quotes(key.text)));
    const std::string line = fmt::format("{}: {}", key.text, value.text());
    const Ref limits = resources["limits"];
    if (!limits.keys().empty()) {
      put_edit(finding, insert_before(report.places(), limits.keys()[0], line));
    } else if (!limits) {
      put_edit(finding,
               insert_before(report.places(), *resources.key("requests"), "limits:\n  " + line));
    }
  });
}

void unequal(const Case& at, Report& report) {
  each_extended(*at.container, "requests", [&](const YamlKey& key, Ref value) {
    const Ref limit = at.container->resources()["limits"][key.text];
    const auto asked = parse_quantity(value.text());
    const auto allowed = parse_quantity(limit.text());
    if (!asked || !allowed || *asked == *allowed) return;
    report.add("GPU002", value,
               fmt::format("{} of {} are requested and {} are the limit: they must be equal",
                           value.text(), in_quotes(key.text), limit.text()));
  });
}

void fraction(const Case& at, Report& report) {
  for (std::string_view side : {"limits", "requests"}) {
    each_extended(*at.container, side, [&](const YamlKey& key, Ref value) {
      const auto amount = parse_quantity(value.text());
      if (!amount || *amount == std::floor(*amount)) return;
      report.add("GPU003", value,
                 fmt::format("{} of {} is no whole number: the pod is refused", value.text(),
                             in_quotes(key.text)));
    });
  }
}

// What a TrainJob asks for takes the place of all that its runtime asked for.
bool is_seen_whole(const Case& at) {
  return at.pods->spec || at.container->node["resourcesPerNode"];
}

std::string container_named(const Case& at) {
  return at.container->name.empty() ? "the trainer" : "container " + in_quotes(at.container->name);
}

bool has_gpu_work(const Case& at) {
  return at.container->gpus() > 0 && is_seen_whole(at) && at.work.kind != WorkloadKind::kDaemonSet;
}

// A RayJob's workers load data like any others, whatever its entrypoint is called.
bool feeds_gpus(const Case& at) {
  return has_gpu_work(at) && (at.work.is_training || at.work.object->kind == "RayJob");
}

void nothing_beside(const Case& at, Report& report) {
  if (!has_gpu_work(at)) return;
  const bool has_cpu = at.container->requested("cpu") > 0 ||
                       at.container->resources()["requests"]["cpu"] ||
                       at.container->resources()["limits"]["cpu"];
  const bool has_memory = at.container->resources()["requests"]["memory"] ||
                          at.container->resources()["limits"]["memory"];
  if ((has_cpu && has_memory) || at.pods->spec["resources"]) return;
  const std::string_view missing = has_cpu ? "memory" : has_memory ? "CPU" : "CPU and memory";
  Finding& finding =
      report.add_at_key("GPU004", at.container->node,
                        at.container->node["resources"] ? "resources" : "resourcesPerNode",
                        fmt::format("{} asks for {} and for no {}", container_named(at),
                                    counted(at.container->gpus(), "GPU"), missing));
  const bool matters = at.work.is_training && at.container->gpus() >= 2;
  if (!matters) finding.severity = Severity::kNote;
}

// Of the limit; without one, of what is reserved.
double cpus_of(const Container& container) {
  const double limit = container.limit("cpu");
  return limit > 0 ? limit : container.requested("cpu");
}

Ref written_cpus(const Container& container) {
  const Ref limit = container.resources()["limits"]["cpu"];
  return limit ? limit : container.resources()["requests"]["cpu"];
}

void few_cpus(const Case& at, Report& report) {
  if (!feeds_gpus(at)) return;
  const bool is_capped = at.container->limit("cpu") > 0;
  const double per_gpu = cpus_of(*at.container) / at.container->gpus();
  if (per_gpu <= 0 || per_gpu >= kGoodCpusPerGpu) return;
  Finding& finding = report.add(
      "GPU005", written_cpus(*at.container),
      fmt::format("{} CPUs {} {}: the loader will starve them", written_cpus(*at.container).text(),
                  is_capped ? "at most for" : "reserved for",
                  counted(at.container->gpus(), "GPU")));
  if (per_gpu >= kFewCpusPerGpu || !is_capped) finding.severity = Severity::kNote;
}

void little_memory(const Case& at, Report& report) {
  if (!feeds_gpus(at)) return;
  const double limit = at.container->limit("memory");
  if (limit == 0 || limit / at.container->gpus() >= kFewBytesPerGpu) return;
  report.add("GPU006", at.container->resources()["limits"]["memory"],
             fmt::format("a memory limit of {} for {}: importing torch with CUDA alone takes 2 to "
                         "4 GiB in each process",
                         format_bytes(static_cast<uint64_t>(limit)),
                         counted(at.container->gpus(), "GPU")));
}

void several_mig(const Case& at, Report& report) {
  if (!at.work.is_training) return;
  each_extended(*at.container, "limits", [&](const YamlKey& key, Ref value) {
    if (!is_mig_resource(key.text) || parse_quantity(value.text()).value_or(0) < 2) return;
    report.add("GPU007", value,
               fmt::format("{} MIG devices in one container: NCCL refuses two ranks on one card, "
                           "and MIG devices have no peer-to-peer path",
                           value.text()));
  });
}

void sees_all(const Case& at, Report& report) {
  const EnvVar* variable = find_variable(at.container->env, "NVIDIA_VISIBLE_DEVICES");
  if (variable == nullptr || !variable->value || at.container->gpus() > 0) return;
  const std::string& value = *variable->value;
  const bool sees_none =
      value.empty() || value == "none" || value == "void" || is_placeholder(value);
  const bool takes_part = at.work.kind != WorkloadKind::kDaemonSet && at.pods->gpus_per_pod() == 0;
  if (sees_none || !takes_part || !at.pods->spec) return;
  report.add(
      "GPU008", variable->place,
      fmt::format("NVIDIA_VISIBLE_DEVICES={} without a GPU in the limits: the container sees "
                  "cards that the scheduler gives to others",
                  printable(value)));
}

void fewer_visible(const Case& at, Report& report) {
  const EnvVar* variable = find_variable(at.container->env, "CUDA_VISIBLE_DEVICES");
  const double gpus = at.container->gpus();
  if (variable == nullptr || !variable->value || gpus == 0) return;
  const std::string& value = *variable->value;
  if (value.empty() || value.find_first_not_of("0123456789,") != value.npos) return;
  const auto listed = static_cast<double>(std::count(value.begin(), value.end(), ',') + 1);
  if (listed == gpus) return;
  Finding& finding =
      report.add("GPU009", variable->value_place,
                 fmt::format("CUDA_VISIBLE_DEVICES lists {} and the container has {}",
                             counted(listed, "device"), counted(gpus, "GPU")));
  if (listed > gpus) finding.severity = Severity::kError;
}

std::string_view model_of(const PodGroup& pods) {
  const Ref selector = pods.spec["nodeSelector"];
  for (std::string_view label : {"nvidia.com/gpu.product", "cloud.google.com/gke-accelerator",
                                 "karpenter.k8s.aws/instance-gpu-name", "accelerator"}) {
    if (selector[label]) return selector[label].text();
  }
  return {};
}

void mixed_models(const Case& at, Report& report) {
  const PodGroup* first = nullptr;
  for (const PodGroup& group : at.work.groups) {
    if (group.gpus_per_pod() == 0 || model_of(group).empty()) continue;
    if (first == nullptr) first = &group;
    if (model_of(group) == model_of(*first) || !at.work.is_training) continue;
    report.add_at_key("GPU010", group.spec, "nodeSelector",
                      fmt::format("{} trains on {} and {} on {}: the slowest card sets the pace",
                                  in_quotes(first->role), in_quotes(model_of(*first)),
                                  in_quotes(group.role), in_quotes(model_of(group))));
    return;
  }
}

// Ray gives out as many GPUs as it is told; without a word it counts those of the container.
void told_to_ray(const Case& at, Report& report) {
  // A cluster without any plays them, for a trial.
  if (at.work.kind != WorkloadKind::kRayCluster || at.work.gpus() == 0) return;
  const Ref told = at.pods->entry["rayStartParams"]["num-gpus"];
  const auto count = told.integer();
  const double gpus = at.pods->gpus_per_pod();
  if (!count || *count == 0 || static_cast<double>(*count) == gpus || gpus != std::floor(gpus)) {
    return;
  }
  Finding& finding =
      report.add("GPU011", told,
                 fmt::format("num-gpus: {} and {} in the pod: {}", *count,
                             gpus == 0 ? std::string("no GPU") : counted(gpus, "GPU"),
                             static_cast<double>(*count) > gpus
                                 ? "Ray places more workers here than there are cards"
                                 : "Ray leaves the others idle"));
  if (static_cast<double>(*count) < gpus) finding.severity = Severity::kWarning;
}

// mpirun and deepspeed in the launcher start nothing there, unless the launcher is a worker.
void launcher_with_gpus(const Case& at, Report& report) {
  if (at.work.kind != WorkloadKind::kMpiJob || at.work.spec()["runLauncherAsWorker"].is_true())
    return;
  const Container* launcher = nullptr;
  bool has_workers = false;
  for (const PodGroup& group : at.work.groups) {
    if (group.role == "Launcher") launcher = group.main();
    has_workers |= group.role == "Worker" && group.pods.value_or(1) > 0;
  }
  if (launcher == nullptr || !has_workers || launcher->gpus() == 0) return;
  report.add_at_key("GPU012", launcher->node, "resources",
                    fmt::format("the launcher holds {} and computes nothing: the ranks run in the "
                                "workers",
                                counted(launcher->gpus(), "GPU")));
}

constexpr Rule kRules[] = {
    {"GPU012", WorkloadRule{launcher_with_gpus}},
    {"GPU001", ContainerRule{without_limit, Needs::kWholeObject}},
    {"GPU002", ContainerRule{unequal}},
    {"GPU003", ContainerRule{fraction}},
    {"GPU004", ContainerRule{nothing_beside, Needs::kWholeObject}},
    {"GPU005", ContainerRule{few_cpus}},
    {"GPU006", ContainerRule{little_memory}},
    {"GPU007", ContainerRule{several_mig}},
    {"GPU008", ContainerRule{sees_all, Needs::kWholeObject}},
    {"GPU009", ContainerRule{fewer_visible}},
    {"GPU010", WorkloadRule{mixed_models}},
    {"GPU011", PodRule{told_to_ray, Needs::kWholeObject}},
};

}  // namespace

extern const std::span<const Rule> kGpuRules = kRules;

}  // namespace shanty::lint
