#include "render/objects.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "job/parse.h"
#include "render/pod.h"

namespace shanty {
namespace {

using Json = nlohmann::ordered_json;

Piece piece(std::string stem, Yaml object) {
  return {.stem = std::move(stem), .object = std::move(object), .text = {}, .file_name = {}};
}

Yaml from_json(const Json& json) {
  if (json.is_object()) {
    Yaml out = Yaml::mapping();
    for (const auto& [key, value] : json.items()) out.set(key, from_json(value));
    return out;
  }
  if (json.is_array()) {
    Yaml out = Yaml::sequence();
    for (const Json& item : json) out.push(from_json(item));
    return out;
  }
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned()) return json.get<uint64_t>();
  if (json.is_string()) return json.get<std::string>();
  return Yaml::word(json.dump());
}

Yaml token_secret(const RenderContext& c) {
  Yaml secret = make_object(c, "v1", "Secret", c.secret_name());
  secret.comment(
      "The secret by which the pods of this job know each other: whoever has it can join the job. "
      "It is random for each rendering; keep this object out of version control, or give the name "
      "of a Secret of yours with --token-from.");
  secret.set("type", "Opaque");
  secret["stringData"].set("token", c.options.token);
  return secret;
}

Yaml config_map(const RenderContext& c) {
  Yaml map = make_object(c, "v1", "ConfigMap", c.config_name());
  Yaml& data = map["data"];
  data.set("job.yaml", pod_job_file(c), "The job file as each pod reads it.");
  if (c.code != CodeSource::kConfigMap) return map;
  size_t index = 0;
  for (const CodeFile& file : c.options.code) {
    data.set(code_key(index++), file.content, file.path);
  }
  return map;
}

Yaml checkpoint_claim(const RenderContext& c) {
  const CheckpointSpec& checkpoint = c.job.checkpoint;
  Yaml claim = make_object(c, "v1", "PersistentVolumeClaim", checkpoint.claim);
  claim.comment("Outlives the job: it is deleted by hand, or with its namespace.");
  Yaml& spec = claim["spec"];
  const bool many = c.nodes > 1;
  spec.set("accessModes", Yaml::texts({many ? "ReadWriteMany" : "ReadWriteOnce"}),
           many ? "All nodes write their part; ReadWriteOnce is one node's and leaves the other "
                  "pods Pending."
                : "");
  if (!checkpoint.storage_class.empty()) spec.set("storageClassName", checkpoint.storage_class);
  spec["resources"]["requests"].set("storage", quantity(*checkpoint.size_bytes));
  return claim;
}

// The fields of v1beta1 lie one level higher than those of its successors.
Yaml claim_template(const RenderContext& c) {
  const std::string version = claim_template_version(c.offer);
  Yaml object = make_object(c, "resource.k8s.io/" + version, "ResourceClaimTemplate", c.name);
  object.comment("Dynamic resource allocation: the GPUs of a pod, by the DeviceClass of a driver.");
  Yaml request;
  request.set("name", "gpus");
  Yaml& exactly = version == "v1beta1" ? request : request["exactly"];
  exactly.set("deviceClassName", c.job.gpu.device_class);
  exactly.set("allocationMode", "ExactCount").set("count", c.processes);
  object["spec"]["spec"]["devices"]["requests"].push(request);
  return object;
}

// Exit codes of `shanty agent`: 1 the job has failed, 2 and 3 it cannot start; 128 and above
// something ended this pod.
Yaml pod_failure_policy() {
  Yaml policy;
  Yaml disrupted;
  disrupted.set("action", "Ignore",
                "Evictions, preemptions and lost nodes do not count: the pod is replaced and joins "
                "the others, which wait.");
  disrupted["onPodConditions"].push(
      Yaml::mapping().set("type", "DisruptionTarget").set("status", "True"));
  policy["rules"].push(disrupted);
  Yaml failed;
  failed.set("action", "FailJob",
             "1 to 3 is shanty's word that the job itself has failed: ranks were restarted in "
             "place as often as restart.max allows, a new pod would not help.");
  Yaml& codes = failed["onExitCodes"];
  codes.set("operator", "In");
  codes["values"].push(1);
  codes["values"].push(2);
  codes["values"].push(3);
  policy["rules"].push(failed);
  return policy;
}

}  // namespace

std::string claim_template_version(const KubernetesOffer& offer) {
  for (const char* version : {"v1", "v1beta2", "v1beta1"}) {
    if (offer.find_kind("resource.k8s.io", "ResourceClaimTemplate", version) != nullptr) {
      return version;
    }
  }
  return "";
}

std::string code_key(size_t index) { return fmt::format("code-{}", index); }

void add_labels(const RenderContext& c, Yaml& metadata) {
  Yaml& labels = metadata["labels"];
  labels.set("app.kubernetes.io/name", c.name);
  labels.set("app.kubernetes.io/managed-by", "shanty");
  labels.set("shanty.dev/job", c.name);
  for (const auto& [name, value] : c.job.pod.labels) labels.set(name, value);
}

Yaml make_object(const RenderContext& c, std::string_view api_version, std::string_view kind,
                 std::string_view name) {
  Yaml object;
  object.set("apiVersion", api_version).set("kind", kind);
  Yaml& metadata = object["metadata"];
  metadata.set("name", name);
  if (!c.job.schedule.k8s_namespace.empty()) {
    metadata.set("namespace", c.job.schedule.k8s_namespace);
  }
  add_labels(c, metadata);
  return object;
}

std::string job_file_text(const Job& job) {
  return from_json(Json::parse(serialize_job(job))).write();
}

std::string pod_job_file(const RenderContext& c) {
  Job job = c.job;
  if (c.code == CodeSource::kConfigMap) job.run.working_dir.clear();
  if (c.code == CodeSource::kGit) {
    const std::string inside = job.run.working_dir;
    job.run.working_dir = kCodeDir + (inside.empty() ? "" : "/" + inside);
  }
  return job_file_text(job);
}

std::vector<Piece> common_objects(const RenderContext& c) {
  std::vector<Piece> out;
  if (c.options.token_from.empty()) out.push_back(piece("secret", token_secret(c)));
  out.push_back(piece("config", config_map(c)));
  if (!c.job.checkpoint.claim.empty() && c.job.checkpoint.size_bytes) {
    out.push_back(piece("claim", checkpoint_claim(c)));
  }
  if (claims_devices(c)) out.push_back(piece("devices", claim_template(c)));
  return out;
}

Piece headless_service(const RenderContext& c) {
  Yaml service = make_object(c, "v1", "Service", c.name);
  Yaml& spec = service["spec"];
  spec.set("clusterIP", "None",
           "Headless: each pod has a name of its own. A ClusterIP would balance connections over "
           "the pods, and ranks would meet the wrong one.");
  spec.set("publishNotReadyAddresses", true,
           "The pods look for each other before any of them is ready.");
  spec["selector"].set("shanty.dev/job", c.name);
  spec["ports"].push(Yaml::mapping().set("name", "master").set("port", uint64_t{c.master_port}));
  spec["ports"].push(
      Yaml::mapping().set("name", "shanty").set("port", uint64_t{c.master_port} + 1));
  return piece("service", service);
}

Yaml indexed_job_spec(const RenderContext& c, Yaml pod_template, bool with_ttl) {
  Yaml spec;
  spec.set("completionMode", "Indexed",
           "Gives each pod its number: JOB_COMPLETION_INDEX is the node's rank.");
  spec.set("completions", c.nodes);
  spec.set("parallelism", c.nodes);
  spec.set("backoffLimit", c.job.restart.max,
           "Pods that died by themselves, such as by running out of memory, and were replaced.");
  spec.set("podReplacementPolicy", "Failed",
           "No second pod of one index while the first still ends: two would claim to be the same "
           "node.");
  spec.set("podFailurePolicy", pod_failure_policy());
  if (with_ttl) {
    spec.set("ttlSecondsAfterFinished", static_cast<uint64_t>(std::ceil(c.job.schedule.ttl_s)),
             "Removes the finished job, which would otherwise stay for ever.");
  }
  spec.set("template", std::move(pod_template));
  return spec;
}

}  // namespace shanty
