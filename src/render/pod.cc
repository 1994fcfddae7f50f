#include "render/pod.h"

#include <fmt/format.h>

#include "job/keys.h"
#include "render/gang.h"
#include "render/objects.h"
#include "render/pod_parts.h"

namespace shanty {
namespace {

constexpr uint64_t kKi = 1u << 10;
constexpr uint64_t kMi = kKi << 10;
constexpr uint64_t kGi = kMi << 10;
constexpr uint64_t kMega = 1'000'000;
constexpr uint64_t kGiga = 1'000'000'000;
constexpr uint64_t kUnknownMemoryBytes = kGi;
// Ray's head with its dashboard, through which the job comes: 1.3 GB when nothing runs.
constexpr uint64_t kIdleCpus = 2;
constexpr uint64_t kIdleMemoryBytes = 4 * kGi;
constexpr const char* kDeviceClaim = "gpus";  // within the pod
// Interfaces of a node that lead nowhere or only into its own containers.
constexpr const char* kNotTheNetwork = "^lo,docker,veth,cali,cilium,flannel,cni,virbr";

bool is_root(const RenderContext& c) { return c.job.pod.user == 0; }
bool wants_gpus(const RenderContext& c) { return c.job.gpu.resource != kNoGpus; }

Yaml trainer_resources(const RenderContext& c) {
  Yaml out = equal_resources(c.plan.count("cpus_per_node").value_or(c.processes),
                             c.plan.count("memory_per_node_bytes").value_or(kUnknownMemoryBytes));
  out["requests"].comment(
      "Equal to the limits: such pods are evicted last, and only they get whole CPUs near their "
      "GPUs from the Topology Manager.");
  for (const char* side : {"requests", "limits"}) {
    if (wants_gpus(c) && !claims_devices(c)) out[side].set(c.job.gpu.resource, c.processes);
    if (!c.rdma_resource.empty()) out[side].set(c.rdma_resource, c.rdma_count);
  }
  if (claims_devices(c)) out["claims"].push(Yaml::mapping().set("name", kDeviceClaim));
  return out;
}

Yaml pod_security(const RenderContext& c) {
  Yaml out;
  const uint64_t user = c.job.pod.user;
  if (!is_root(c)) {
    out.set("runAsNonRoot", true,
            "What the pod security level \"restricted\" asks for. pod.user: 0 is for images that "
            "work as root only.");
    out.set("runAsUser", user).set("runAsGroup", user);
  }
  out.set("fsGroup", user, "Volumes belong to this group, so that the user can write to them.");
  out.set("fsGroupChangePolicy", "OnRootMismatch",
          "Without this, every start walks all files of the checkpoint volume.");
  out["seccompProfile"].set("type", "RuntimeDefault");
  return out;
}

// A copy in run.env would be set for the ranks anyway, and later.
void add_variable(const RenderContext& c, Yaml& env, const PodVariable& variable) {
  for (const auto& [name, value] : c.job.run.env) {
    if (name == variable.name) return;
  }
  Yaml entry;
  entry.set("name", variable.name);
  if (variable.field.empty()) {
    entry.set("value", variable.value);
  } else {
    entry["valueFrom"]["fieldRef"].set("fieldPath", variable.field);
  }
  env.push(entry, variable.why);
}

std::vector<PodVariable> network_variables(const RenderContext& c) {
  std::vector<PodVariable> out;
  const std::string& named = c.job.network.interface;
  std::string interface = named;
  std::string why = "As network.interface says.";
  if (named.empty() && c.host_network) {
    interface = kNotTheNetwork;
    why =
        "On the node's network there are bridges and veths too, which lead to no other node; "
        "network.interface names the right one.";
  } else if (named.empty() && !c.job.network.networks.empty()) {
    interface = "eth0";
    why = "Connections are set up over the cluster's network; the second network carries the data.";
  }
  if (!interface.empty()) {
    out.push_back({.name = "NCCL_SOCKET_IFNAME", .value = interface, .field = {}, .why = why});
    // Gloo takes names only, no exclusions.
    if (interface.front() != '^') {
      out.push_back({.name = "GLOO_SOCKET_IFNAME", .value = interface, .field = {}, .why = {}});
    }
  }
  if (!wants_gpus(c)) return out;
  if (c.job.network.rdma == false) {
    out.push_back(
        {.name = "NCCL_IB_DISABLE", .value = "1", .field = {}, .why = "network.rdma is off."});
  }
  out.push_back({.name = "NCCL_DEBUG",
                 .value = "INFO",
                 .field = {},
                 .why = "The lines in which NCCL says which network it took (NET/IB, NET/Socket): "
                        "the fall-back to sockets is silent otherwise and ten times slower."});
  out.push_back({.name = "NCCL_DEBUG_SUBSYS", .value = "INIT,NET", .field = {}, .why = {}});
  return out;
}

void add_environment(const RenderContext& c, const PodFrame& frame, Yaml& container) {
  Yaml& env = container["env"];
  for (const PodVariable& variable : frame.identity) add_variable(c, env, variable);
  add_variable(c, env,
               {.name = "SHANTY_TOKEN_FILE",
                .value = fmt::format("{}/token", kTokenDir),
                .field = {},
                .why = "A file, not a variable: variables are inherited by every child and shown "
                       "by debuggers."});
  add_variable(c, env,
               {.name = "HOME",
                .value = kHomeDir,
                .field = {},
                .why = "The user of the pod has no home in most images; torch, triton and Hugging "
                       "Face keep caches there."});
  add_variable(c, env,
               {.name = "USER",
                .value = "shanty",
                .field = {},
                .why = "The user id has no name in the image; torch's compiler asks for it."});
  for (const PodVariable& variable : network_variables(c)) add_variable(c, env, variable);
}

Yaml trainer_container(const RenderContext& c, const PodFrame& frame, Yaml& volumes) {
  Yaml out;
  out.set("name", frame.container).set("image", c.job.run.image);
  out.set("imagePullPolicy", choice_name(c.job.pod.pull_policy));
  if (c.job.run.image.find("@sha256:") == std::string::npos && c.nodes > 1 &&
      c.job.pod.pull_policy == PullPolicy::kIfNotPresent) {
    out["imagePullPolicy"].comment(
        "A tag can mean different images on different nodes; a digest (name@sha256:...) cannot.");
  }
  if (!frame.image_runs_itself) {
    out.set("command", Yaml::texts(agent_command(c, frame.master_addr)));
  }
  if (c.code != CodeSource::kImage) out.set("workingDir", kCodeDir);
  if (!frame.port_name.empty()) {
    out["ports"].push(
        Yaml::mapping().set("name", frame.port_name).set("containerPort", uint64_t{c.master_port}),
        "The operator would open 23456, which on the node's network one pod of all jobs can have.");
  }
  add_environment(c, frame, out);
  out.set("resources",
          frame.is_idle ? equal_resources(kIdleCpus, kIdleMemoryBytes) : trainer_resources(c));
  out.set("securityContext", container_security(c, !frame.is_idle));
  Yaml mounts;
  add_volumes(c, frame, volumes, mounts);
  out.set("volumeMounts", mounts);
  return out;
}

void add_network(const RenderContext& c, Yaml& metadata, Yaml& spec) {
  if (c.host_network) {
    spec.set("hostNetwork", true,
             "As network.host_network says: the node's own interfaces. A namespace that enforces "
             "the pod security level baseline or restricted rejects such pods.");
    spec.set("dnsPolicy", "ClusterFirstWithHostNet",
             "With the default, a pod on the node's network asks the node's resolver, which does "
             "not know the names of the other pods.");
  }
  const auto& networks = c.job.network.networks;
  if (!networks.empty()) {
    metadata["annotations"].set("k8s.v1.cni.cncf.io/networks",
                                fmt::format("{}", fmt::join(networks, ",")),
                                "Second networks of the pod: net1, net2, ...");
  }
}

void add_metadata(const RenderContext& c, Yaml& metadata) {
  add_labels(c, metadata);
  for (const auto& [name, value] : c.job.pod.annotations) {
    metadata["annotations"].set(name, value);
  }
  if (!c.gang.is(GangMechanism::kKueue)) return;
  const std::string label = kueue_topology(c);
  if (label.empty()) return;
  metadata["annotations"].set(
      "kueue.x-k8s.io/podset-preferred-topology", label,
      "Near each other if there is room; podset-required-topology would wait for it.");
}

}  // namespace

bool brings_shanty(const RenderContext& c) { return c.job.pod.shanty_image != "none"; }

Yaml equal_resources(uint64_t cpus, uint64_t memory_bytes) {
  Yaml amounts;
  amounts.set("cpu", cpus).set("memory", quantity(memory_bytes));
  Yaml out;
  out.set("requests", amounts).set("limits", amounts);
  return out;
}

Yaml container_security(const RenderContext& c, bool needs_rdma) {
  Yaml out;
  out.set("allowPrivilegeEscalation", false);
  out["capabilities"].set("drop", Yaml::texts({"ALL"}));
  if (needs_rdma && !c.rdma_resource.empty()) {
    out["capabilities"].set("add", Yaml::texts({"IPC_LOCK"}),
                            "RDMA pins memory beyond the limit of a container. The namespace must "
                            "allow it: the pod security levels baseline and restricted do not.");
  }
  return out;
}

std::string quantity(uint64_t bytes) {
  if (bytes >= kGi && bytes % kGi == 0) return fmt::format("{}Gi", bytes / kGi);
  if (bytes >= kGiga && bytes % kGiga == 0) return fmt::format("{}G", bytes / kGiga);
  if (bytes >= kMi && bytes % kMi == 0) return fmt::format("{}Mi", bytes / kMi);
  if (bytes >= kMega && bytes % kMega == 0) return fmt::format("{}M", bytes / kMega);
  return fmt::format("{}", bytes);
}

std::string shanty_path(const RenderContext& c) {
  return brings_shanty(c) ? fmt::format("{}/shanty", kShantyDir) : "shanty";
}

bool run_dir_is_shared(const RenderContext& c) { return !c.job.checkpoint.claim.empty(); }

std::string run_dir(const RenderContext& c) {
  const CheckpointSpec& checkpoint = c.job.checkpoint;
  const std::string parent = checkpoint.mount.empty() ? fmt::format("{}/runs", kHomeDir)
                                                      : checkpoint.mount + "/.shanty/runs";
  return fmt::format("{}/{}-{}", parent, c.name, c.run_id);
}

std::vector<std::string> agent_command(const RenderContext& c, const std::string& master_addr) {
  std::vector<std::string> out = {shanty_path(c), "agent"};
  if (c.nodes > 1 && !master_addr.empty()) out.push_back("--master-addr=" + master_addr);
  if (c.nodes > 1) out.push_back(fmt::format("--master-port={}", c.master_port));
  out.push_back("--run-dir=" + run_dir(c));
  out.emplace_back("--");
  out.push_back(fmt::format("{}/job.yaml", kConfigDir));
  return out;
}

Yaml pod_template(const RenderContext& c, const PodFrame& frame) {
  Yaml out;
  Yaml& metadata = out["metadata"];
  add_metadata(c, metadata);
  Yaml& spec = out["spec"];
  if (!frame.hostname.empty()) spec.set("hostname", frame.hostname);
  if (!frame.subdomain.empty()) {
    spec.set("subdomain", frame.subdomain, "The headless Service, so that the pod has a DNS name.");
  }
  if (!frame.restart_policy.empty()) {
    spec.set("restartPolicy", frame.restart_policy, frame.why_restart);
  }
  add_network(c, metadata, spec);
  spec.set("terminationGracePeriodSeconds", c.grace_s(),
           fmt::format("The ranks get restart.grace to save; {} s more for shanty to say goodbye.",
                       c.grace_s() - static_cast<uint64_t>(c.job.restart.grace_s)));
  if (c.job.pod.service_account.empty()) {
    spec.set("automountServiceAccountToken", false, "Training asks nothing of the cluster.");
  } else {
    spec.set("serviceAccountName", c.job.pod.service_account);
  }
  spec.set("enableServiceLinks", false,
           "Else each Service of the namespace becomes variables; one called \"master\" would set "
           "MASTER_PORT to an address.");
  if (!c.job.schedule.priority.empty()) spec.set("priorityClassName", c.job.schedule.priority);
  for (const std::string& secret : c.job.pod.pull_secrets) {
    spec["imagePullSecrets"].push(Yaml::mapping().set("name", secret));
  }
  if (!frame.placement_elsewhere && !frame.is_idle) add_placement(c, spec);
  spec.set("securityContext", pod_security(c));
  if (claims_devices(c) && !frame.is_idle) {
    Yaml claim;
    claim.set("name", kDeviceClaim).set("resourceClaimTemplateName", c.name);
    spec["resourceClaims"].push(claim, "Each pod gets a claim of its own by this template.");
  }
  Yaml volumes;
  add_init_containers(c, spec, volumes);
  spec["containers"].push(trainer_container(c, frame, volumes));
  spec.set("volumes", std::move(volumes));
  join_gang(c, out, frame.operator_makes_gang);
  return out;
}

}  // namespace shanty
