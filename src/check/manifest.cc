#include "check/manifest.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <nlohmann/json.hpp>

#include "check/neighbours.h"
#include "check/objects.h"
#include "check/trainer.h"
#include "render/local_code.h"
#include "render/render.h"
#include "text/diagnostic.h"
#include "kube/json_child.h"
#include "text/json_fields.h"

namespace shanty::check {
namespace {

using kube::child;
using kube::items;
using nlohmann::json;

constexpr YamlLimits kLimits = {.bytes = size_t{16} << 20,
                                .depth = 64,
                                .nodes = 500'000,
                                .scalar_bytes = size_t{1} << 20,
                                .documents = 1000,
                                .aliases = true};
constexpr int64_t kMostPods = 1'000'000;
// Stands where the job's token would: the objects are only tried.
constexpr const char* kNoToken = "checked-and-never-stored-0123456789";

std::optional<bool> flag(std::string_view text) {
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  return std::nullopt;
}

// As kubectl reads them: 0755, 0o755 and 0x1ed are one number.
std::optional<int64_t> integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  int base = 10;
  if (text.size() > 1 && text[0] == '0') {
    const bool is_hex = text[1] == 'x';
    base = is_hex ? 16 : 8;
    text.remove_prefix(is_hex || text[1] == 'o' ? 2 : 1);
  }
  int64_t value = 0;
  if (text.empty() || text[0] == '-') return std::nullopt;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value, base);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return negative ? -value : value;
}

json scalar(const YamlNode& node) {
  const std::string& text = node.text;
  if (node.is_quoted) return text;
  if (const auto is_true = flag(text)) return *is_true;
  if (const auto whole = integer(text)) return *whole;
  const char* end = text.data() + text.size();
  double real = 0;
  const bool like_number = text.find_first_not_of("0123456789+-.eE") == std::string::npos &&
                           text.find_first_of("0123456789") != std::string::npos;
  if (const auto parsed = std::from_chars(text.data(), end, real);
      like_number && parsed.ec == std::errc() && parsed.ptr == end) {
    return real;
  }
  return text;
}

uint64_t count_of(const json& object, const char* name, int64_t fallback = 1) {
  return static_cast<uint64_t>(
      std::clamp<int64_t>(json_int64(object, name, fallback), 0, kMostPods));
}

// Of a batch Job, at one time.
uint64_t pods_of_job(const json& spec) {
  const uint64_t parallel = count_of(spec, "parallelism");
  return std::min(parallel, count_of(spec, "completions", static_cast<int64_t>(parallel)));
}

// Gathers what the pod templates of one workload say.
class Gatherer {
 public:
  // `given_labels`: what a controller adds to its pods'.
  Gatherer(Workload& workload, std::map<std::string, std::string> given_labels)
      : workload_(workload), given_labels_(std::move(given_labels)) {}

  void add_template(const std::string& name, uint64_t pods, const json& pod_template) {
    if (pods == 0) return;
    const json& spec = child(pod_template, "spec");
    std::map<std::string, std::string> labels = read_labels(pod_template);
    labels.insert(given_labels_.begin(), given_labels_.end());
    FitGroup group{.name = name,
                   .pods = pods,
                   .per_pod = pod_requests(spec),
                   .limits = pod_limits(spec),
                   .containers = items(spec, "containers").size()};
    group.placement = placement_of(spec, child(pod_template, "metadata"), labels);
    // A pod may mount one claim twice, which makes it no more than one pod.
    std::map<std::string, bool> read_only;
    for (const json& volume : items(spec, "volumes")) {
      const json& claim = child(volume, "persistentVolumeClaim");
      const std::string claim_name = json_string(claim, "claimName");
      if (claim_name.empty()) continue;
      bool& only_reads = read_only.emplace(claim_name, true).first->second;
      only_reads = only_reads && (json_bool(claim, "readOnly") || mounts_read_only(spec, volume));
    }
    for (const auto& [claim, only_reads] : read_only) {
      group.claims.push_back(claim);
      add_claim({claim, only_reads, pods > 1});
    }
    if (add_group(std::move(group))) {
      workload_.request.apart = read_apart(spec, labels);
      workload_.request.spread = read_spread(spec, labels);
      workload_.request.labels = std::move(labels);
    }
    if (!items(spec, "resourceClaims").empty()) workload_.claims_devices = true;
    for (const json& secret : items(spec, "imagePullSecrets")) {
      add_once(workload_.pull_secrets, json_string(secret, "name"));
    }
    for (const json& container : items(spec, "containers")) {
      add_once(workload_.images, json_string(container, "image"));
    }
    take_first(workload_.scheduler, json_string(spec, "schedulerName"));
    take_first(workload_.priority_class, json_string(spec, "priorityClassName"));
    if (json_int64(spec, "activeDeadlineSeconds") > 0) workload_.has_deadline = true;
    for (const auto& [key, value] : child(child(pod_template, "metadata"), "annotations").items()) {
      if (key.starts_with("kueue.x-k8s.io/podset-") && key.ends_with("-topology")) {
        workload_.asks_topology = true;
      }
    }
  }

 private:
  // True when it is the heaviest until now, whose rules are the request's.
  bool add_group(FitGroup group) {
    std::vector<FitGroup>& groups = workload_.request.groups;
    const bool is_heaviest = groups.empty() || accelerators(group) > accelerators(groups.front());
    for (FitGroup& known : groups) {
      if (known.per_pod != group.per_pod || known.placement != group.placement ||
          known.claims != group.claims) {
        continue;
      }
      known.pods += group.pods;
      return false;
    }
    groups.insert(is_heaviest ? groups.begin() : groups.end(), std::move(group));
    return is_heaviest;
  }

  FitPlacement placement_of(const json& spec, const json& metadata,
                            const std::map<std::string, std::string>& labels) const {
    FitPlacement out{.needs = needs_of(spec), .tolerations = tolerations_of(spec)};
    out.topology_label =
        json_string(child(metadata, "annotations"), "kueue.x-k8s.io/podset-required-topology");
    if (out.topology_label.empty()) out.topology_label = packs_into(spec, labels);
    return out;
  }

  static int64_t accelerators(const FitGroup& group) {
    int64_t sum = 0;
    for (const auto& [name, amount] : group.per_pod) {
      if (name.find('/') != std::string::npos) sum += amount;
    }
    return sum;
  }

  static void take_first(std::string& into, const std::string& value) {
    if (into.empty()) into = value;
  }

  static void add_once(std::vector<std::string>& list, const std::string& value) {
    if (!value.empty() && std::ranges::find(list, value) == list.end()) list.push_back(value);
  }

  void add_claim(ClaimUse use) {
    for (ClaimUse& known : workload_.claims) {
      if (known.name != use.name) continue;
      known.read_only = known.read_only && use.read_only;
      known.many_nodes = true;
      return;
    }
    workload_.claims.push_back(std::move(use));
  }

  static bool mounts_read_only(const json& spec, const json& volume) {
    const std::string name = json_string(volume, "name");
    bool mounted = false;
    for (const char* list : {"containers", "initContainers"}) {
      for (const json& container : items(spec, list)) {
        for (const json& mount : items(container, "volumeMounts")) {
          if (json_string(mount, "name") != name) continue;
          if (!json_bool(mount, "readOnly")) return false;
          mounted = true;
        }
      }
    }
    return mounted;
  }

  static std::vector<Toleration> tolerations_of(const json& spec) {
    std::vector<Toleration> out;
    for (const json& toleration : items(spec, "tolerations")) {
      out.push_back({.key = json_string(toleration, "key"),
                     .exists = json_string(toleration, "operator") == "Exists",
                     .value = json_string(toleration, "value"),
                     .effect = json_string(toleration, "effect")});
    }
    return out;
  }

  static NeedSets needs_of(const json& spec) {
    std::vector<LabelNeed> always;
    for (const auto& [key, value] : child(spec, "nodeSelector").items()) {
      if (value.is_string()) always.push_back({.key = key, .values = {value.get<std::string>()}});
    }
    NeedSets out = read_node_terms(child(child(child(spec, "affinity"), "nodeAffinity"),
                                         "requiredDuringSchedulingIgnoredDuringExecution"),
                                   always);
    if (out.empty() && !always.empty()) out.push_back(std::move(always));
    return out;
  }

  // The label of which its pods need one value, since they have to be near each other.
  std::string packs_into(const json& spec, const std::map<std::string, std::string>& labels) const {
    const std::string& own = workload_.k8s_namespace;
    for (const ApartTerm& term : read_together(spec, labels)) {
      if (concerns(term, own, own, labels)) return term.topology_key;
    }
    return "";
  }

  Workload& workload_;
  const std::map<std::string, std::string> given_labels_;
};

void add_replicated_job(const json& job, Gatherer& gatherer) {
  const json& job_spec = child(child(job, "template"), "spec");
  gatherer.add_template(json_string(job, "name"), count_of(job, "replicas") * pods_of_job(job_spec),
                        child(job_spec, "template"));
}

// Each leader has its own workers; without a template of its own it is like them.
void add_leaders_and_workers(const json& spec, Gatherer& gatherer) {
  const uint64_t leaders = count_of(spec, "replicas");
  const json& group = child(spec, "leaderWorkerTemplate");
  const json& worker = child(group, "workerTemplate");
  const json* leader = json_object(group, "leaderTemplate");
  const uint64_t workers = std::max<uint64_t>(1, count_of(group, "size")) - 1;
  gatherer.add_template("leader", leaders, leader == nullptr ? worker : *leader);
  gatherer.add_template("worker", leaders * workers, worker);
}

// Labels that selectors of people's manifests name and templates do not have.
std::map<std::string, std::string> labels_from_controller(const std::string& kind,
                                                          const std::string& version,
                                                          const std::string& name) {
  if (kind == "Job" && version.starts_with("batch.volcano.sh/")) {
    return {{"volcano.sh/job-name", name}};
  }
  if (kind == "Job") return {{"job-name", name}, {"batch.kubernetes.io/job-name", name}};
  if (kind == "JobSet" || kind == "TrainJob") return {{"jobset.sigs.k8s.io/jobset-name", name}};
  if (kind == "LeaderWorkerSet") return {{"leaderworkerset.sigs.k8s.io/name", name}};
  if (kind == "PyTorchJob" || kind == "MPIJob") return {{"training.kubeflow.org/job-name", name}};
  return {};
}

void add_object(const json& object, const std::vector<json>& all, Workload& workload) {
  const std::string kind = json_string(object, "kind");
  const std::string version = json_string(object, "apiVersion");
  const json& spec = child(object, "spec");
  const size_t before = workload.request.groups.size();
  Gatherer gatherer(workload, labels_from_controller(
                                  kind, version, json_string(child(object, "metadata"), "name")));
  if (kind == "Pod") {
    gatherer.add_template("pod", 1, object);
  } else if (kind == "Job" && version.starts_with("batch.volcano.sh/")) {
    for (const json& task : items(spec, "tasks")) {
      gatherer.add_template(json_string(task, "name"), count_of(task, "replicas"),
                            child(task, "template"));
    }
    workload.volcano_queue = json_string(spec, "queue", "default");
    workload.gang = true;
  } else if (kind == "Job") {
    gatherer.add_template("worker", pods_of_job(spec), child(spec, "template"));
  } else if (kind == "PyTorchJob" || kind == "MPIJob") {
    const char* replicas = kind == "MPIJob" ? "mpiReplicaSpecs" : "pytorchReplicaSpecs";
    for (const auto& [role, each] : child(spec, replicas).items()) {
      gatherer.add_template(role, count_of(each, "replicas"), child(each, "template"));
    }
    const json& policy = child(child(spec, "runPolicy"), "schedulingPolicy");
    workload.volcano_queue = json_string(policy, "queue");
  } else if (kind == "JobSet") {
    for (const json& job : items(spec, "replicatedJobs")) add_replicated_job(job, gatherer);
  } else if (kind == "StatefulSet" || kind == "Deployment") {
    gatherer.add_template("pod", count_of(spec, "replicas"), child(spec, "template"));
  } else if (kind == "LeaderWorkerSet") {
    add_leaders_and_workers(spec, gatherer);
  } else if (kind == "RayJob" || kind == "RayCluster") {
    const json& ray = kind == "RayJob" ? child(spec, "rayClusterSpec") : spec;
    gatherer.add_template("head", 1, child(child(ray, "headGroupSpec"), "template"));
    for (const json& group : items(ray, "workerGroupSpecs")) {
      gatherer.add_template(json_string(group, "groupName"),
                            count_of(group, "replicas") * count_of(group, "numOfHosts"),
                            child(group, "template"));
    }
  } else if (kind == "TrainJob") {
    const TrainerPlan plan = plan_of_trainer(object, all);
    for (const json& job : plan.jobs) add_replicated_job(job, gatherer);
    workload.gang = workload.gang || plan.is_gang;
    if (!plan.volcano_queue.empty()) workload.volcano_queue = plan.volcano_queue;
  }
  if (workload.request.groups.size() == before && workload.name.empty()) return;
  const json& metadata = child(object, "metadata");
  if (workload.name.empty()) {
    workload.name =
        json_string(metadata, "name", json_string(metadata, "generateName", "workload"));
    workload.kind = kind;
  }
  const std::string its_namespace = json_string(metadata, "namespace");
  if (!its_namespace.empty()) workload.k8s_namespace = its_namespace;
  const auto labels = read_labels(object);
  if (const auto queue = labels.find("kueue.x-k8s.io/queue-name"); queue != labels.end()) {
    workload.kueue_queue = queue->second;
    workload.gang = true;
  }
}

// PodGroups and Workloads of any scheduler say that pods start together.
void add_pod_group(const json& object, Workload& workload) {
  const std::string kind = json_string(object, "kind");
  if (kind != "PodGroup" && kind != "Workload") return;
  workload.gang = true;
  if (json_string(object, "apiVersion").starts_with("scheduling.volcano.sh/")) {
    workload.volcano_queue = json_string(child(object, "spec"), "queue", "default");
  }
}

// The first group's placement is the request's, and that of others which are placed like it.
void settle_placements(FitRequest& request) {
  if (request.groups.empty()) return;
  const FitPlacement first = request.groups.front().placement.value_or(FitPlacement());
  for (FitGroup& group : request.groups) {
    if (group.placement == first) group.placement.reset();
  }
  request.needs = first.needs;
  request.tolerations = first.tolerations;
  request.topology_label = first.topology_label;
}

}  // namespace

json to_json(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return nullptr;
    case YamlNode::Kind::kScalar:
      return scalar(node);
    case YamlNode::Kind::kSequence: {
      json list = json::array();
      for (const YamlNode& item : node.items) list.push_back(to_json(item));
      return list;
    }
    case YamlNode::Kind::kMapping: {
      json map = json::object();
      for (size_t i = 0; i < node.keys.size(); ++i) map[node.keys[i].text] = to_json(node.items[i]);
      return map;
    }
  }
  __builtin_unreachable();
}

bool is_manifest(std::string_view text) {
  const ParsedYaml yaml = parse_documents(text, "", kLimits);
  return !yaml.documents.empty() && yaml.documents.front().find("apiVersion") != nullptr &&
         yaml.documents.front().find("kind") != nullptr;
}

Result<std::vector<json>> parse_manifests(std::string_view text, const std::string& file_name) {
  const ParsedYaml yaml = parse_documents(text, file_name, kLimits);
  for (const Diagnostic& diagnostic : yaml.diagnostics) {
    if (diagnostic.severity == Severity::kError) return Error{format_diagnostic(diagnostic)};
  }
  std::vector<json> objects;
  for (const YamlNode& document : yaml.documents) {
    json object = to_json(document);
    if (object.is_null()) continue;
    if (json_string(object, "kind") == "List") {
      for (const json& item : items(object, "items")) objects.push_back(item);
    } else {
      objects.push_back(std::move(object));
    }
  }
  return objects;
}

uint64_t Workload::pods() const {
  uint64_t sum = 0;
  for (const FitGroup& group : request.groups) sum += group.pods;
  return sum;
}

namespace {

Amounts sum_of_pods(const std::vector<FitGroup>& groups, Amounts FitGroup::* each) {
  Amounts sum;
  for (const FitGroup& group : groups) {
    for (const auto& [resource, amount] : group.*each) {
      sum[resource] += amount * static_cast<int64_t>(group.pods);
    }
  }
  return sum;
}

}  // namespace

Amounts Workload::total() const { return sum_of_pods(request.groups, &FitGroup::per_pod); }

Amounts Workload::total_limits() const { return sum_of_pods(request.groups, &FitGroup::limits); }

Result<Workload> workload_of(const std::vector<json>& objects, const std::string& k8s_namespace) {
  Workload workload{.k8s_namespace = k8s_namespace};
  for (const json& object : objects) {
    add_object(object, objects, workload);
    add_pod_group(object, workload);
  }
  settle_placements(workload.request);
  if (workload.request.groups.empty()) {
    return Error{
        "none of the objects brings pods: expected a job file, or Pods, Job, PyTorchJob, "
        "TrainJob, JobSet, Volcano Job, RayJob, MPIJob, StatefulSet, Deployment or "
        "LeaderWorkerSet"};
  }
  return workload;
}

Result<std::vector<json>> render_objects(const Job& job, const std::string& job_file,
                                         const KubernetesOffer& offer, const std::string& target) {
  const LocalCode code = read_local_code(job, job_file);
  RenderOptions options{.target = target, .token = kNoToken, .run_id = "check"};
  options.code = code.files;
  options.code_problem = code.problem;
  const Rendered rendered = TRY(render_job(job, make_plan(job, Cluster{}), offer, options));
  std::vector<json> objects;
  for (const RenderedObject& object : rendered.objects) {
    for (json& each : TRY(parse_manifests(object.text, object.file_name))) {
      objects.push_back(std::move(each));
    }
  }
  return objects;
}

Workload workload_of(const Job& job, const Plan& plan, const std::string& k8s_namespace) {
  Workload workload{.name = job.name, .k8s_namespace = job.schedule.k8s_namespace};
  if (workload.k8s_namespace.empty()) workload.k8s_namespace = k8s_namespace;
  FitGroup group{.name = "node", .pods = job.nodes.max};
  group.per_pod["nvidia.com/gpu"] = static_cast<int64_t>(job.gpus_per_node);
  if (const auto cpus = plan.count("cpus_per_node")) {
    group.per_pod["cpu"] = static_cast<int64_t>(*cpus) * 1000;
  }
  if (const auto memory = plan.count("memory_per_node_bytes")) {
    group.per_pod["memory"] = static_cast<int64_t>(*memory);
  }
  group.limits = group.per_pod;
  workload.request.groups = {group};
  if (job.nodes.min < job.nodes.max) workload.request.min_pods = job.nodes.min;
  workload.request.tolerations = {{.key = "nvidia.com/gpu", .exists = true}};
  workload.gpu_model = job.gpu.model;
  workload.gang = job.schedule.gang.value_or(job.nodes.max > 1);
  workload.kueue_queue = job.schedule.queue;
  workload.priority_class = job.schedule.priority;
  const bool many = job.nodes.max > 1;
  for (const DataMount& data : job.data) {
    if (!data.claim.empty()) workload.claims.push_back({data.claim, data.read_only, many});
  }
  if (!job.checkpoint.claim.empty()) workload.claims.push_back({job.checkpoint.claim, false, many});
  for (const ClaimUse& use : workload.claims) {
    workload.request.groups.front().claims.push_back(use.name);
  }
  workload.images = {job.run.image};
  return workload;
}

}  // namespace shanty::check
