#include <algorithm>

#include <fmt/format.h>

#include "lint/case_questions.h"
#include "text/utf8.h"

namespace shanty::lint {
namespace {

constexpr std::string_view kQueueName = "kueue.x-k8s.io/queue-name";
constexpr std::string_view kGroupAnnotations[] = {"scheduling.k8s.io/group-name",
                                                  "scheduling.volcano.sh/group-name"};
constexpr std::string_view kGroupLabel = "scheduling.x-k8s.io/pod-group";

bool is_gang_scheduler(std::string_view name) {
  return !name.empty() && name != "default-scheduler" && !is_placeholder(name);
}

bool has_key_starting(Ref map, std::string_view start) {
  const auto keys = map.keys();
  return std::any_of(keys.begin(), keys.end(),
                     [&](const YamlKey& key) { return key.text.starts_with(start); });
}

bool is_gang_mark(Ref map) {
  return map[kQueueName] || map[kGroupLabel] || map[kGroupAnnotations[0]] ||
         map[kGroupAnnotations[1]] || has_key_starting(map, "kai.scheduler/") ||
         has_key_starting(map, "kueue.x-k8s.io/") ||
         has_key_starting(map, "yunikorn.apache.org/") || map["ray.io/gang-scheduling-enabled"] ||
         map["ray.io/scheduler-name"] || map["runai/queue"] ||
         map["scheduling.volcano.sh/queue-name"];
}

bool has_gang(const Case& at) {
  const Ref metadata = at.work.metadata();
  if (is_gang_mark(metadata["labels"]) || is_gang_mark(metadata["annotations"])) return true;
  const Ref outer = at.work.object->wrapper["metadata"];
  if (is_gang_mark(outer["labels"]) || is_gang_mark(outer["annotations"])) return true;
  if (at.work.kind == WorkloadKind::kVolcanoJob) return true;
  const Ref spec = at.work.spec();
  const bool is_asked = spec["runPolicy"]["schedulingPolicy"] || spec["podGroupPolicy"] ||
                        spec["scheduling"] || spec["schedulingPolicy"];
  if (is_asked) return true;
  return std::any_of(at.work.groups.begin(), at.work.groups.end(), [](const PodGroup& group) {
    return is_gang_scheduler(group.spec["schedulerName"].text()) || group.spec["schedulingGroup"] ||
           group.spec["workloadRef"] || is_gang_mark(group.labels()) ||
           is_gang_mark(group.annotations());
  });
}

// The gang of a TrainJob stands in its runtime: only where that is seen can it be missing.
bool lacks_gang_in_runtime(const Case& at) {
  const Ref reference = at.work.spec()["runtimeRef"];
  const std::string_view kind = reference["kind"].text();
  const Object* runtime = at.set.find(kind.empty() ? "ClusterTrainingRuntime" : kind,
                                      reference["name"].text(), *at.work.object);
  if (runtime == nullptr || runtime->root["spec"]["podGroupPolicy"]) return false;
  const auto around = at.set.workloads_around(*runtime);
  return std::any_of(around.begin(), around.end(), [&](const Workload* work) {
    return work->object == runtime &&
           std::none_of(work->groups.begin(), work->groups.end(), [](const PodGroup& group) {
             return is_gang_scheduler(group.spec["schedulerName"].text());
           });
  });
}

// Deployments and the like are made to start pod by pod.
bool wants_gang(const Case& at) {
  const Workload& work = at.work;
  switch (work.kind) {
    case WorkloadKind::kJob:
    case WorkloadKind::kCronJob:
    case WorkloadKind::kPytorchJob:
    case WorkloadKind::kJobSet:
    case WorkloadKind::kMpiJob:
      return work.is_training;
    case WorkloadKind::kPod:
    case WorkloadKind::kStatefulSet:
      return work.is_training;
    case WorkloadKind::kTrainJob:
      return lacks_gang_in_runtime(at);
    case WorkloadKind::kDeployment:
    case WorkloadKind::kDaemonSet:
    case WorkloadKind::kKubeflowJob:
    case WorkloadKind::kTrainingRuntime:
    case WorkloadKind::kVolcanoJob:
    case WorkloadKind::kRayCluster:
    case WorkloadKind::kLeaderWorkerSet:
      break;
  }
  return false;
}

bool is_elastic(const Workload& work) { return static_cast<bool>(work.spec()["elasticPolicy"]); }

void no_gang(const Case& at, Report& report) {
  if (!wants_gang(at) || is_elastic(at.work) || has_gang(at)) return;
  int64_t pods = 0;
  for (const PodGroup& group : at.work.groups) {
    if (group.gpus_per_pod() > 0) pods += group.pods.value_or(0);
  }
  if (pods < 2) return;
  report.add_at_key(
      "GANG001", at.work.object->root, "kind",
      fmt::format("{} with {} start one by one: two such jobs can hold half of each other's GPUs",
                  counted(static_cast<double>(pods), "pod"), counted(at.work.gpus(), "GPU")));
}

void compare(Report& report, Ref value, std::string_view key, int64_t pods, bool is_elastic_job) {
  const auto least = value.integer();
  if (!least || *least == pods) return;
  if (*least > pods) {
    Finding& finding = report.add("GANG002", value,
                                  fmt::format("{}: {} with {}: the gang is never complete", key,
                                              *least, counted(static_cast<double>(pods), "pod")));
    finding.severity = Severity::kError;
  } else if (!is_elastic_job) {
    report.add("GANG002", value,
               fmt::format("{}: {} of {}: a part of the job is started without the rest", key,
                           *least, counted(static_cast<double>(pods), "pod")));
  }
}

void least_members(const Case& at, Report& report) {
  const auto pods = at.work.pods();
  if (!pods || *pods == 0) return;
  const Ref spec = at.work.spec();
  // 0 is Volcano's word for all of them.
  if (at.work.kind == WorkloadKind::kVolcanoJob && at.work.is_training &&
      spec["minAvailable"].integer() != 0) {
    compare(report, spec["minAvailable"], "minAvailable", *pods, false);
  }
  compare(report, spec["runPolicy"]["schedulingPolicy"]["minAvailable"], "minAvailable", *pods,
          is_elastic(at.work));
}

// How many pods of what stands beside a PodGroup belong to it; 0: cannot be known.
int64_t members_of(const ManifestSet& set, const Object& group) {
  int64_t count = 0;
  for (const Workload* work : set.workloads_around(group)) {
    for (const PodGroup& pods : work->groups) {
      const bool belongs = pods.labels()[kGroupLabel].text() == group.name ||
                           pods.annotations()[kGroupAnnotations[0]].text() == group.name ||
                           pods.annotations()[kGroupAnnotations[1]].text() == group.name;
      if (!belongs) continue;
      if (!pods.pods) return 0;
      count += *pods.pods;
    }
  }
  return count;
}

void group_members(const ManifestSet& set, const Object& object, Report& report) {
  if (object.kind != "PodGroup" || object.name.empty()) return;
  const int64_t members = members_of(set, object);
  if (members > 0) compare(report, object.root["spec"]["minMember"], "minMember", members, false);
}

void without_scheduler(const Case& at, Report& report) {
  const Ref labels = at.pods->labels();
  const Ref annotations = at.pods->annotations();
  if (!at.pods->spec || is_gang_scheduler(at.pods->spec["schedulerName"].text())) return;
  if (is_placeholder(at.pods->spec["schedulerName"].text())) return;
  Ref map;
  std::string_view key;
  if (labels[kGroupLabel]) {
    map = labels;
    key = kGroupLabel;
  }
  for (std::string_view name : kGroupAnnotations) {
    if (!annotations[name]) continue;
    map = annotations;
    key = name;
  }
  if (!map || at.work.kind == WorkloadKind::kVolcanoJob) return;
  report.add_at_key("GANG003", map, key,
                    fmt::format("a PodGroup is named for {}, but no schedulerName leads to the "
                                "scheduler that knows it",
                                pods_named(at)));
}

void runtime_scheduler(const Case& at, Report& report) {
  if (at.work.kind != WorkloadKind::kTrainingRuntime) return;
  const Ref policy = at.work.spec()["podGroupPolicy"];
  if (!policy) return;
  const bool is_named =
      std::any_of(at.work.groups.begin(), at.work.groups.end(),
                  [](const auto& g) { return static_cast<bool>(g.spec["schedulerName"]); });
  if (!is_named) {
    report.add_at_key("GANG003", at.work.spec(), "podGroupPolicy",
                      "the Trainer makes a PodGroup but sets no schedulerName: the pods go to the "
                      "default scheduler");
  }
  const Ref topology = policy["volcano"]["networkTopology"];
  if (topology && !topology["highestTierAllowed"]) {
    report.add_at_key("GANG006", policy["volcano"], "networkTopology",
                      "networkTopology without highestTierAllowed ends the Trainer's controller "
                      "with a nil dereference");
  }
  const bool has_initializers =
      std::any_of(at.work.groups.begin(), at.work.groups.end(),
                  [](const PodGroup& g) { return contains(g.role, "initializer"); });
  if (has_initializers && is_named) {
    report.add_at_key("GANG006", at.work.spec(), "podGroupPolicy",
                      "the gang counts the initializers' pods too, which never run together with "
                      "the trainer's");
  }
}

bool is_admitted_whole(WorkloadKind kind) {
  return kind != WorkloadKind::kPod && kind != WorkloadKind::kDaemonSet &&
         kind != WorkloadKind::kTrainingRuntime && kind != WorkloadKind::kCronJob;
}

void queue_in_wrong_place(const Case& at, Report& report) {
  if (!is_admitted_whole(at.work.kind)) return;
  const Ref object_labels = at.work.metadata()["labels"];
  if (at.pods->labels()[kQueueName] && !object_labels[kQueueName]) {
    report.add_at_key("GANG004", at.pods->labels(), kQueueName,
                      fmt::format("the queue is named on the pods; Kueue reads it from the {}",
                                  at.work.object->kind));
  }
}

void queue_as_annotation(const Case& at, Report& report) {
  const Ref annotations = at.work.metadata()["annotations"];
  if (!annotations[kQueueName] || at.work.metadata()["labels"][kQueueName]) return;
  report.add_at_key("GANG004", annotations, kQueueName,
                    "the queue's name is an annotation: Kueue reads the label of that name");
}

void exclusive_topology(const Case& at, Report& report) {
  if (at.work.kind != WorkloadKind::kJobSet) return;
  constexpr std::string_view kKey = "alpha.jobset.sigs.k8s.io/exclusive-topology";
  const bool waits_for_all = std::any_of(
      at.work.groups.begin(), at.work.groups.end(),
      [](const PodGroup& group) { return is_gang_scheduler(group.spec["schedulerName"].text()); });
  const Ref annotations = at.work.metadata()["annotations"];
  if (!waits_for_all || !annotations[kKey]) return;
  report.add_at_key("GANG006", annotations, kKey,
                    "JobSet admits the followers once the leader is scheduled, and the gang "
                    "scheduler schedules the leader once all are there: neither begins");
}

void topology_in_wrong_place(const Case& at, Report& report) {
  if (!is_admitted_whole(at.work.kind) || at.work.kind == WorkloadKind::kTrainJob) return;
  const Ref annotations = at.work.metadata()["annotations"];
  for (const YamlKey& key : annotations.keys()) {
    const bool is_placed =
        key.text.starts_with("kueue.x-k8s.io/podset-") && contains(key.text, "topology");
    if (!is_placed) continue;
    report.add(
        "GANG004", key.place,
        fmt::format("{} stands on the {}; Kueue reads it from the pod template's annotations",
                    key.text, at.work.object->kind));
  }
}

void job_file(const JobSource& job, Report& report) {
  const Job& parsed = job.parsed.job;
  const bool is_off = parsed.schedule.gang && !*parsed.schedule.gang;
  if (!is_off || parsed.nodes.max < 2) return;
  report.add("GANG001", Ref(job.root)["schedule"]["gang"],
             fmt::format("{} start one by one with gang: false",
                         counted(static_cast<double>(parsed.nodes.max), "node")));
}

constexpr Rule kRules[] = {
    {"GANG001", WorkloadRule{no_gang, Needs::kWholeObject}},
    {"GANG001", JobRule{job_file}},
    {"GANG002", WorkloadRule{least_members, Needs::kWholeObject}},
    {"GANG002", ObjectRule{group_members}},
    {"GANG003", PodRule{without_scheduler, Needs::kWholeObject}},
    {"GANG003 GANG006", WorkloadRule{runtime_scheduler, Needs::kWholeObject}},
    {"GANG004", PodRule{queue_in_wrong_place}},
    {"GANG004", WorkloadRule{queue_as_annotation}},
    {"GANG006", WorkloadRule{exclusive_topology}},
    {"GANG004", WorkloadRule{topology_in_wrong_place}},
};

}  // namespace

extern const std::span<const Rule> kGangRules = kRules;

}  // namespace shanty::lint
