#include "render/gang.h"

#include <algorithm>

#include <fmt/format.h>

#include "render/objects.h"

namespace shanty {
namespace {

using enum GangMechanism;

constexpr const char* kUsualCoscheduler = "scheduler-plugins-scheduler";
constexpr const char* kUsualQueue = "default";  // of Kueue and of Volcano

bool is_possible(const std::vector<GangMechanism>& possible, GangMechanism mechanism) {
  return std::ranges::find(possible, mechanism) != possible.end();
}

std::string names_of(const std::vector<GangMechanism>& mechanisms) {
  std::vector<std::string_view> names;
  for (const GangMechanism m : mechanisms) names.push_back(gang_name(m));
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

std::optional<GangMechanism> mechanism_of(GangChoice asked) {
  switch (asked) {
    case GangChoice::kAuto:
    case GangChoice::kNone:
      return std::nullopt;
    case GangChoice::kKueue:
      return kKueue;
    case GangChoice::kVolcano:
      return kVolcano;
    case GangChoice::kCoscheduling:
      return kCoscheduling;
    case GangChoice::kNative:
      return kNative;
  }
  __builtin_unreachable();
}

// The LocalQueue of Kueue that would take the job; where it is known that there is none, why.
struct QueueChoice {
  std::string queue;
  std::string missing;
};

QueueChoice choose_local_queue(const Job& job, const KubernetesOffer& offer) {
  const std::string& asked = job.schedule.queue;
  const std::string usual = asked.empty() ? kUsualQueue : asked;
  if (!offer.local_queues) return {.queue = usual, .missing = {}};
  const std::vector<std::string>& there = *offer.local_queues;
  if (std::ranges::find(there, usual) != there.end()) return {.queue = usual, .missing = {}};
  if (asked.empty() && there.size() == 1) return {.queue = there.front(), .missing = {}};
  const std::string& k8s_namespace = job.schedule.k8s_namespace;
  const std::string place =
      "namespace " + (k8s_namespace.empty() ? std::string("default") : k8s_namespace);
  const std::string names = fmt::format("{}", fmt::join(there, ", "));
  if (there.empty()) return {.queue = {}, .missing = "Kueue has no LocalQueue in " + place};
  if (!asked.empty()) {
    return {
        .queue = {},
        .missing = fmt::format("Kueue has no LocalQueue {} in {}, only {}", asked, place, names)};
  }
  return {.queue = {},
          .missing = fmt::format("Kueue has the LocalQueues {} in {}, and schedule.queue says none",
                                 names, place)};
}

// Without a word of the cluster: a queue is Kueue's, else the newest that the target can have.
std::optional<GangMechanism> guess(const Job& job, const QueueChoice& queue,
                                   const std::vector<GangMechanism>& possible,
                                   std::vector<std::string>& notes) {
  if (!job.schedule.queue.empty() && queue.missing.empty() && is_possible(possible, kKueue)) {
    return kKueue;
  }
  if (job.schedule.gang != true || job.nodes.max == 1) return std::nullopt;
  for (const GangMechanism m : {kNative, kCoscheduling, kVolcano}) {
    if (!is_possible(possible, m)) continue;
    notes.push_back(fmt::format(
        "schedule.gang is on, but what the cluster has for it is not known: {} is a guess, --gang "
        "says it",
        gang_name(m)));
    return m;
  }
  return std::nullopt;
}

std::string coscheduler(const RenderContext& c) {
  return c.offer.coscheduling_scheduler.empty() ? kUsualCoscheduler
                                                : c.offer.coscheduling_scheduler;
}

const ServedKind* native_kind(const KubernetesOffer& offer, std::string_view kind) {
  for (const char* version : {"v1", "v1beta1", "v1alpha2", "v1alpha1"}) {
    if (const ServedKind* found = offer.find_kind("scheduling.k8s.io", kind, version)) return found;
  }
  return nullptr;
}

Piece volcano_group(const RenderContext& c, uint64_t pods) {
  Yaml group = make_object(c, "scheduling.volcano.sh/v1beta1", "PodGroup", c.name);
  Yaml& spec = group["spec"];
  spec.set("minMember", pods, "All or none: fewer would hold their GPUs and wait for the rest.");
  spec.set("queue", c.gang.queue.empty() ? kUsualQueue : c.gang.queue);
  if (!c.job.schedule.priority.empty()) spec.set("priorityClassName", c.job.schedule.priority);
  return {.stem = "podgroup", .object = group, .text = {}, .file_name = {}};
}

Piece coscheduling_group(const RenderContext& c, uint64_t pods) {
  Yaml group = make_object(c, "scheduling.x-k8s.io/v1alpha1", "PodGroup", c.name);
  Yaml& spec = group["spec"];
  spec.set("minMember", pods, "All or none: fewer would hold their GPUs and wait for the rest.");
  spec.set("scheduleTimeoutSeconds", 120,
           "How long pods that have a place wait for the others; the default, 60, is short for "
           "large groups.");
  return {.stem = "podgroup", .object = group, .text = {}, .file_name = {}};
}

Yaml native_policy(uint64_t pods) {
  Yaml out;
  out["gang"].set("minCount", pods,
                  "All or none: fewer would hold their GPUs and wait for the rest.");
  return out;
}

std::vector<Piece> native_groups(const RenderContext& c, uint64_t pods) {
  const ServedKind* workload_kind = native_kind(c.offer, "Workload");
  const ServedKind* group_kind = native_kind(c.offer, "PodGroup");
  const std::string version =
      "scheduling.k8s.io/" + (workload_kind == nullptr ? "v1beta1" : workload_kind->version);
  Yaml workload = make_object(c, version, "Workload", c.name);
  if (group_kind == nullptr) {  // 1.35: the group is a part of the Workload
    Yaml& group = workload["spec"]["podGroups"].push(Yaml::mapping());
    group.set("name", "nodes");
    group["policy"]["gang"].set("minCount", pods);
    return {{.stem = "workload", .object = workload, .text = {}, .file_name = {}}};
  }
  Yaml named;
  named.set("name", "nodes").set("schedulingPolicy", native_policy(pods));
  workload["spec"]["podGroupTemplates"].push(named);
  Yaml group = make_object(c, "scheduling.k8s.io/" + group_kind->version, "PodGroup", c.name);
  Yaml& ref = group["spec"]["workloadRef"];
  ref.set("workloadName", c.name).set("templateName", "nodes");
  group["spec"].set("schedulingPolicy", native_policy(pods));
  return {{.stem = "workload", .object = workload, .text = {}, .file_name = {}},
          {.stem = "podgroup", .object = group, .text = {}, .file_name = {}}};
}

}  // namespace

std::vector<GangMechanism> every_gang(const KubernetesOffer&) {
  return {kKueue, kVolcano, kCoscheduling, kNative};
}
std::vector<GangMechanism> no_gang(const KubernetesOffer&) { return {}; }

Result<Gang> choose_gang(const Job& job, const KubernetesOffer& offer, GangChoice asked,
                         const std::vector<GangMechanism>& possible, std::string_view target,
                         std::vector<std::string>& notes) {
  const QueueChoice queue = choose_local_queue(job, offer);
  const auto gang_by = [&](std::optional<GangMechanism> mechanism) {
    return Gang{.mechanism = mechanism,
                .queue = mechanism == kKueue ? queue.queue : job.schedule.queue};
  };
  const auto named = mechanism_of(asked);
  if (named && !is_possible(possible, *named)) {
    return Error{fmt::format("target {} cannot be scheduled by {}; it can by: {}", target,
                             gang_name(*named), names_of(possible))};
  }
  if (named == kKueue && !queue.missing.empty()) {
    return Error{
        fmt::format("--gang kueue: {}; without one the job would wait for ever", queue.missing)};
  }
  if (possible.empty() || asked != GangChoice::kAuto || job.schedule.gang == false) {
    return gang_by(named);
  }
  if (possible.size() == 1) return gang_by(possible.front());  // the target brings it along
  const auto offered = std::ranges::find_if(offer.gangs, [&](GangMechanism m) {
    return is_possible(possible, m) && (m != kKueue || queue.missing.empty());
  });
  const bool wants = job.nodes.max > 1 || !job.schedule.queue.empty();
  std::optional<GangMechanism> mechanism;
  if (offered != offer.gangs.end()) {
    if (wants) mechanism = *offered;
  } else {
    mechanism = guess(job, queue, possible, notes);
  }
  // A queue that Kueue lacks may be Volcano's.
  const bool misses_kueue = !queue.missing.empty() && is_possible(possible, kKueue) && wants &&
                            mechanism != kVolcano && (!mechanism || !job.schedule.queue.empty());
  if (misses_kueue) notes.push_back(queue.missing + ": the job goes without Kueue");
  if (!mechanism && job.nodes.max > 1) {
    notes.push_back(
        "nothing makes the pods start together: some can hold their GPUs while they wait for the "
        "others; --gang kueue, volcano, coscheduling or native does");
  }
  return gang_by(mechanism);
}

void add_queue(const RenderContext& c, Yaml& metadata) {
  if (!c.gang.is(kKueue)) return;
  metadata["labels"].set(
      "kueue.x-k8s.io/queue-name", c.gang.queue,
      "The LocalQueue of Kueue: the job is kept suspended until all of it fits.");
}

void join_gang(const RenderContext& c, Yaml& pod_template, bool operator_makes_gang) {
  Yaml& metadata = pod_template["metadata"];
  Yaml& spec = pod_template["spec"];
  if (c.gang.is(kVolcano)) {
    if (!operator_makes_gang) {
      metadata["annotations"].set("scheduling.k8s.io/group-name", c.name,
                                  "Makes the pod a member of the PodGroup of that name.");
    }
    spec.set("schedulerName", "volcano", "Only Volcano's scheduler heeds its PodGroups.");
  } else if (c.gang.is(kCoscheduling)) {
    if (!operator_makes_gang) {
      metadata["labels"].set("scheduling.x-k8s.io/pod-group", c.name,
                             "Makes the pod a member of the PodGroup of that name.");
    }
    spec.set("schedulerName", coscheduler(c), "The scheduler that has the coscheduling plugin.");
  } else if (c.gang.is(kNative)) {
    if (native_kind(c.offer, "PodGroup") == nullptr) {
      spec["workloadRef"].set("name", c.name).set("podGroup", "nodes");
    } else {
      spec["schedulingGroup"].set("podGroupName", c.name,
                                  "Makes the pod a member of the PodGroup of that name.");
    }
  }
}

std::vector<Piece> gang_objects(const RenderContext& c, uint64_t pods) {
  if (c.gang.is(kVolcano)) return {volcano_group(c, pods)};
  if (c.gang.is(kCoscheduling)) return {coscheduling_group(c, pods)};
  if (c.gang.is(kNative)) return native_groups(c, pods);
  return {};
}

}  // namespace shanty
