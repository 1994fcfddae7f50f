#include "check/manifest.h"

#include <algorithm>
#include <charconv>

#include <nlohmann/json.hpp>

#include "check/objects.h"
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
                                .documents = 1000};
constexpr int64_t kMostPods = 1'000'000;
// Stands where the job's token would: the objects are only tried.
constexpr const char* kNoToken = "checked-and-never-stored-0123456789";

json scalar(const YamlNode& node) {
  const std::string& text = node.text;
  if (node.is_quoted) return text;
  if (text == "true" || text == "false") return text == "true";
  const char* end = text.data() + text.size();
  int64_t integer = 0;
  if (const auto parsed = std::from_chars(text.data(), end, integer);
      parsed.ec == std::errc() && parsed.ptr == end) {
    return integer;
  }
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

std::string text_at(const json& map, const char* name) { return json_string(map, name); }

// Gathers what the pod templates of one workload say.
class Gatherer {
 public:
  // `given_labels`: what a controller adds to its pods'.
  Gatherer(Workload& workload, std::map<std::string, std::string> given_labels)
      : workload_(workload), given_labels_(std::move(given_labels)) {}

  void add_template(const std::string& name, uint64_t pods, const json& pod_template) {
    if (pods == 0) return;
    const json& spec = child(pod_template, "spec");
    add_group({.name = name, .pods = pods, .per_pod = pod_requests(spec)}, spec,
              child(pod_template, "metadata"));
    if (is_heaviest_) {
      workload_.request.labels = read_labels(pod_template);
      workload_.request.labels.insert(given_labels_.begin(), given_labels_.end());
      workload_.request.apart = read_apart(spec, workload_.request.labels);
      workload_.request.spread = read_spread(spec, workload_.request.labels);
    }
    for (const json& volume : items(spec, "volumes")) {
      const json& claim = child(volume, "persistentVolumeClaim");
      const std::string claim_name = json_string(claim, "claimName");
      if (claim_name.empty()) continue;
      const bool read_only = json_bool(claim, "readOnly") || mounts_read_only(spec, volume);
      add_claim({claim_name, read_only, pods > 1});
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
  }

  void add_group(FitGroup group, const json& spec, const json& metadata) {
    FitRequest& request = workload_.request;
    is_heaviest_ =
        request.groups.empty() || accelerators(group) > accelerators(request.groups.front());
    if (is_heaviest_) {
      request.tolerations = tolerations_of(spec);
      request.needs = needs_of(spec);
      request.topology_label =
          text_at(child(metadata, "annotations"), "kueue.x-k8s.io/podset-required-topology");
      if (request.topology_label.empty()) request.topology_label = packs_into(spec);
    }
    for (FitGroup& known : request.groups) {
      if (known.per_pod != group.per_pod) continue;
      known.pods += group.pods;
      return;
    }
    request.groups.insert(is_heaviest_ ? request.groups.begin() : request.groups.end(),
                          std::move(group));
  }

 private:
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
    for (const json& container : items(spec, "containers")) {
      for (const json& mount : items(container, "volumeMounts")) {
        if (json_string(mount, "name") != name) continue;
        if (!json_bool(mount, "readOnly")) return false;
        mounted = true;
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

  static std::vector<std::vector<LabelNeed>> needs_of(const json& spec) {
    std::vector<LabelNeed> always;
    for (const auto& [key, value] : child(spec, "nodeSelector").items()) {
      if (value.is_string()) always.push_back({.key = key, .values = {value.get<std::string>()}});
    }
    std::vector<std::vector<LabelNeed>> out;
    const json& affinity = child(child(child(spec, "affinity"), "nodeAffinity"),
                                 "requiredDuringSchedulingIgnoredDuringExecution");
    for (const json& term : items(affinity, "nodeSelectorTerms")) {
      std::vector<LabelNeed> set = always;
      for (const json& expression : items(term, "matchExpressions")) {
        LabelNeed need{.key = json_string(expression, "key"),
                       .op = json_string(expression, "operator")};
        for (const json& value : items(expression, "values")) {
          if (value.is_string()) need.values.push_back(value);
        }
        set.push_back(std::move(need));
      }
      out.push_back(std::move(set));
    }
    if (out.empty() && !always.empty()) out.push_back(std::move(always));
    return out;
  }

  static std::string packs_into(const json& spec) {
    const json& together = child(child(spec, "affinity"), "podAffinity");
    for (const json& term : items(together, "requiredDuringSchedulingIgnoredDuringExecution")) {
      return json_string(term, "topologyKey");
    }
    return "";
  }

  Workload& workload_;
  const std::map<std::string, std::string> given_labels_;
  bool is_heaviest_ = false;  // the template that is being added
};

// Labels that selectors of people's manifests name and templates do not have.
std::map<std::string, std::string> labels_from_controller(const std::string& kind,
                                                          const std::string& version,
                                                          const std::string& name) {
  if (kind == "Job" && version.starts_with("batch.volcano.sh/")) {
    return {{"volcano.sh/job-name", name}};
  }
  if (kind == "Job") return {{"job-name", name}, {"batch.kubernetes.io/job-name", name}};
  if (kind == "JobSet" || kind == "TrainJob") return {{"jobset.sigs.k8s.io/jobset-name", name}};
  if (kind == "PyTorchJob" || kind == "MPIJob") return {{"training.kubeflow.org/job-name", name}};
  return {};
}

void add_object(const json& object, Workload& workload) {
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
    gatherer.add_template("worker", count_of(spec, "parallelism"), child(spec, "template"));
  } else if (kind == "PyTorchJob" || kind == "MPIJob") {
    const char* replicas = kind == "MPIJob" ? "mpiReplicaSpecs" : "pytorchReplicaSpecs";
    for (const auto& [role, each] : child(spec, replicas).items()) {
      gatherer.add_template(role, count_of(each, "replicas"), child(each, "template"));
    }
    const json& policy = child(child(spec, "runPolicy"), "schedulingPolicy");
    workload.volcano_queue = json_string(policy, "queue");
  } else if (kind == "JobSet") {
    for (const json& job : items(spec, "replicatedJobs")) {
      const json& job_spec = child(child(job, "template"), "spec");
      gatherer.add_template(json_string(job, "name"),
                            count_of(job, "replicas") * count_of(job_spec, "parallelism"),
                            child(job_spec, "template"));
    }
  } else if (kind == "RayJob" || kind == "RayCluster") {
    const json& ray = kind == "RayJob" ? child(spec, "rayClusterSpec") : spec;
    gatherer.add_template("head", 1, child(child(ray, "headGroupSpec"), "template"));
    for (const json& group : items(ray, "workerGroupSpecs")) {
      gatherer.add_template(json_string(group, "groupName"), count_of(group, "replicas"),
                            child(group, "template"));
    }
  } else if (kind == "TrainJob") {
    const json& trainer = child(spec, "trainer");
    json pod_spec = {
        {"containers", json::array({{{"name", "node"},
                                     {"image", json_string(trainer, "image")},
                                     {"resources", child(trainer, "resourcesPerNode")}}})}};
    for (const json& patch : items(spec, "runtimePatches")) {
      const json& jobs = child(child(child(patch, "trainingRuntimeSpec"), "template"), "spec");
      for (const json& job : items(jobs, "replicatedJobs")) {
        const json& patched =
            child(child(child(child(job, "template"), "spec"), "template"), "spec");
        for (const char* name : {"tolerations", "nodeSelector", "affinity"}) {
          if (patched.contains(name)) pod_spec[name] = patched[name];
        }
      }
    }
    gatherer.add_template("node", count_of(trainer, "numNodes"), {{"spec", pod_spec}});
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
bool is_group(const json& object) {
  const std::string kind = json_string(object, "kind");
  return kind == "PodGroup" || kind == "Workload";
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

Amounts Workload::total() const {
  Amounts sum;
  for (const FitGroup& group : request.groups) {
    for (const auto& [resource, amount] : group.per_pod) {
      sum[resource] += amount * static_cast<int64_t>(group.pods);
    }
  }
  return sum;
}

Result<Workload> workload_of(const std::vector<json>& objects, const std::string& k8s_namespace) {
  Workload workload{.k8s_namespace = k8s_namespace};
  for (const json& object : objects) {
    add_object(object, workload);
    if (is_group(object)) workload.gang = true;
  }
  if (workload.request.groups.empty()) {
    return Error{
        "none of the objects brings pods: expected a job file, or Pods, Job, PyTorchJob, "
        "TrainJob, JobSet, Volcano Job, RayJob or MPIJob"};
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
  workload.images = {job.run.image};
  return workload;
}

}  // namespace shanty::check
