#include <algorithm>

#include <fmt/format.h>

#include "lint/case_questions.h"
#include "lint/yaml_edits.h"
#include "text/utf8.h"

namespace shanty::lint {
namespace {

void host_network_dns(const Case& at, Report& report) {
  const Ref spec = at.pods->spec;
  const bool is_mended = at.work.kind == WorkloadKind::kVolcanoJob;  // by its webhook
  const bool is_agent = at.work.kind == WorkloadKind::kDaemonSet;
  if (!spec["hostNetwork"].is_true() || is_mended || is_agent) return;
  if (!at.work.is_training && at.pods->gpus_per_pod() == 0) return;
  const Ref policy = spec["dnsPolicy"];
  const bool is_default = !policy || policy.text() == "ClusterFirst";
  if (!is_default) return;
  Finding& finding = report.add_at_key("NET001", spec, "hostNetwork",
                                       "hostNetwork without dnsPolicy: ClusterFirstWithHostNet: "
                                       "names of the cluster do not resolve");
  put_edit(finding, policy
                        ? replace_scalar(report.places(), *policy.node(), "ClusterFirstWithHostNet")
                        : insert_before(report.places(), *spec.key("hostNetwork"),
                                        "dnsPolicy: ClusterFirstWithHostNet"));
}

// Interfaces of a pod that has a network of its own and no second one.
bool may_exist_in_pod(std::string_view name) {
  for (std::string_view known : {"eth", "lo", "net", "tun", "cilium", "ovn"}) {
    if (name.starts_with(known)) return true;
  }
  return name == "e" || name == "en";
}

bool has_second_network(const PodGroup& pods) {
  const auto keys = pods.annotations().keys();
  return std::any_of(keys.begin(), keys.end(), [](const YamlKey& key) {
    return contains(key.text, "cni.cncf.io") || contains(key.text, "networking.gke.io") ||
           contains(key.text, "networks") || contains(key.text, "multus");
  });
}

// The names of a filter as NCCL and Gloo read it; none where it says what to leave out.
std::vector<std::string_view> wanted_interfaces(std::string_view filter) {
  std::vector<std::string_view> names;
  if (!filter.empty() && filter[0] == '^') return names;
  if (!filter.empty() && filter[0] == '=') filter.remove_prefix(1);
  while (!filter.empty()) {
    const size_t comma = filter.find(',');
    std::string_view name = filter.substr(0, comma);
    name = name.substr(0, name.find(':'));
    if (!name.empty()) names.push_back(name);
    filter = comma == filter.npos ? std::string_view() : filter.substr(comma + 1);
  }
  return names;
}

void interface_names(const Case& at, Report& report) {
  if (!at.pods->spec) return;
  const bool is_own_network =
      !at.pods->spec["hostNetwork"].is_true() && !has_second_network(*at.pods);
  for (std::string_view variable :
       {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"}) {
    const EnvVar* found = find_variable(at.container->env, variable);
    if (found == nullptr || !found->value || is_placeholder(*found->value)) continue;
    const auto names = wanted_interfaces(*found->value);
    if (names.empty()) continue;
    const bool is_loopback =
        std::all_of(names.begin(), names.end(), [](std::string_view name) { return name == "lo"; });
    if (is_loopback && world_pods(at).value_or(1) > 1) {
      report.add("NET004", found->value_place,
                 fmt::format("{}=lo: {} pods cannot reach each other over the loopback", variable,
                             *world_pods(at)));
    }
    const bool is_absent =
        is_own_network && std::none_of(names.begin(), names.end(), may_exist_in_pod);
    if (!is_absent) continue;
    report.add("NET003", found->value_place,
               fmt::format("{}={} names an interface of the node, and these pods have a network of "
                           "their own with eth0",
                           variable, printable(*found->value)));
  }
}

bool has_capability(const Case& at, std::string_view name) {
  const Ref context = at.container->node["securityContext"];
  if (context["privileged"].is_true()) return true;
  for (const YamlNode& item : context["capabilities"]["add"].items()) {
    if (item.text == name || item.text == "ALL" || item.text == "CAP_" + std::string(name))
      return true;
  }
  return false;
}

void rdma_without_lock(const Case& at, Report& report) {
  if (!at.pods->spec || !at.container->asks_rdma() || has_capability(at, "IPC_LOCK")) return;
  report.add_at_key("NET005", at.container->node, "resources",
                    fmt::format("container {} asks for RDMA and may not lock memory: it lacks the "
                                "capability IPC_LOCK",
                                in_quotes(at.container->name)));
}

bool has_infiniband_devices(const Case& at) {
  for (const YamlNode& volume : at.pods->spec["volumes"].items()) {
    if (Ref(volume)["hostPath"]["path"].text().starts_with("/dev")) return true;
  }
  return false;
}

bool lacks_rdma(const Case& at) {
  if (!at.pods->spec || at.pods->spec["resourceClaims"]) return false;
  bool has_extended = at.container->asks_rdma();
  for (const YamlKey& key : at.container->resources()["limits"].keys())
    has_extended = has_extended || (contains(key.text, "/") && !contains(key.text, "gpu"));
  return !has_extended && !has_capability(at, "SYS_ADMIN") && !has_infiniband_devices(at);
}

void rdma_not_asked(const Case& at, Report& report) {
  const EnvVar* hca = find_variable(at.container->env, "NCCL_IB_HCA");
  const EnvVar* net = find_variable(at.container->env, "NCCL_NET");
  const bool wants_ib = net != nullptr && net->value && *net->value == "IB";
  const EnvVar* wish = hca != nullptr && hca->value ? hca : wants_ib ? net : nullptr;
  if (wish == nullptr || !lacks_rdma(at)) return;
  report.add("NET006", wish->place,
             fmt::format("{} is set, but the container has no RDMA device: it asks for no such "
                         "resource and is not privileged",
                         wish->name));
}

// mpirun -x NCCL_IB_HCA=mlx5 in the launcher, for workers without a device.
void rdma_handed_over(const Case& at, Report& report) {
  if (at.work.kind != WorkloadKind::kMpiJob) return;
  const auto& groups = at.work.groups;
  const auto named = [&](std::string_view role) {
    return std::find_if(groups.begin(), groups.end(),
                        [&](const PodGroup& group) { return group.role == role; });
  };
  const auto launcher = named("Launcher");
  const auto workers = named("Worker");
  if (launcher == groups.end() || workers == groups.end() || launcher->main() == nullptr ||
      workers->main() == nullptr || workers->main()->gpus() == 0 ||
      !lacks_rdma({at.set, at.work, &*workers, workers->main()}))
    return;
  for (const Word& word : launcher->main()->command.words()) {
    if (!word.text.starts_with("NCCL_IB_HCA=")) continue;
    report.add_at_word("NET006", word,
                       "NCCL_IB_HCA is handed to the ranks, but the workers have no RDMA device: "
                       "they ask for no such resource and are not privileged");
    return;
  }
}

constexpr Rule kRules[] = {
    {"NET001", PodRule{host_network_dns}},
    {"NET003 NET004", ContainerRule{interface_names, Needs::kWholeObject}},
    {"NET005", ContainerRule{rdma_without_lock, Needs::kWholeObject}},
    {"NET006", ContainerRule{rdma_not_asked, Needs::kWholeObject}},
    {"NET006", WorkloadRule{rdma_handed_over, Needs::kWholeObject}},
};

}  // namespace

extern const std::span<const Rule> kNetRules = kRules;

}  // namespace shanty::lint
