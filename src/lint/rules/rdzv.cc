#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "lint/case_questions.h"
#include "lint/yaml_edits.h"
#include "text/utf8.h"

namespace shanty::lint {
namespace {

bool is_ip_address(std::string_view host) {
  if (host.find_first_not_of("0123456789abcdefABCDEF:.[]") != host.npos) return false;
  const auto dots = std::count(host.begin(), host.end(), '.');
  const auto colons = std::count(host.begin(), host.end(), ':');
  const bool has_digit = host.find_first_of("0123456789") != host.npos;
  return has_digit &&
         (colons >= 2 || (dots == 3 && host.find_first_not_of("0123456789.") == host.npos));
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host.starts_with("127.") || host == "::1" || host == "0.0.0.0";
}

// The labels of a DNS name: "master-0", "svc", ...
std::vector<std::string_view> labels_of(std::string_view host) {
  std::vector<std::string_view> out;
  while (!host.empty()) {
    const size_t dot = host.find('.');
    out.push_back(host.substr(0, dot));
    host = dot == host.npos ? std::string_view() : host.substr(dot + 1);
  }
  return out;
}

void literal_address(const Case& at, Report& report) {
  if (at.container != at.pods->main() || !at.pods->spec) return;
  const auto master = master_address(at, report);
  if (!master) return;
  if (is_loopback(master->host)) {
    const bool is_several = world_pods(at).value_or(0) > 1 && !injects_identity(at.work.kind);
    if (!is_several) return;
    report.add("RDZV003", master->place,
               fmt::format("{} is each pod itself: {} pods will not find each other", master->host,
                           *world_pods(at)));
  } else if (is_ip_address(master->host)) {
    report.add("RDZV001", master->place,
               fmt::format("the master is written in as {}: the address of a pod changes with each "
                           "start",
                           master->host));
  }
}

// MASTER_ADDR from the pod's own address, in a template that makes several pods.
void own_address(const Case& at, Report& report) {
  if (at.pods->pods.value_or(0) < 2) return;
  for (const std::string_view name : {"MASTER_ADDR", "PET_MASTER_ADDR"}) {
    const Ref entry = find_item(at.container->node["env"], "name", name);
    const Ref path = entry["valueFrom"]["fieldRef"]["fieldPath"];
    if (path.text() != "status.podIP" && path.text() != "status.hostIP") continue;
    report.add("RDZV003", path,
               fmt::format("{} is each pod's own address: {} pods will not find each other", name,
                           *at.pods->pods));
  }
}

// Volcano gives pods names and lists of hosts only through its plugin svc.
void volcano_names(const Case& at, Report& report) {
  if (at.work.kind != WorkloadKind::kVolcanoJob || !at.work.is_spread()) return;
  const Ref plugins = at.work.spec()["plugins"];
  const bool has_names = plugins.key("svc") != nullptr || plugins.key("pytorch") != nullptr ||
                         plugins.key("mpi") != nullptr || plugins.key("tensorflow") != nullptr ||
                         plugins.key("ray") != nullptr;
  if (has_names) return;
  for (const Word& word : at.container->command.words()) {
    const bool is_host = contains(word.text, "_HOSTS") && contains(word.text, "VC_");
    if (!is_host && !contains(word.text, "/etc/volcano/")) continue;
    report.add_at_word("RDZV005", word,
                       "the hosts of a Volcano Job are known only with its plugin svc");
    return;
  }
}

// The pods of a Volcano Job are called <job>-<task>-<index>, never as their task.
void name_of_task(const Case& at, Report& report) {
  if (at.container != at.pods->main() || at.work.kind != WorkloadKind::kVolcanoJob) return;
  const auto master = master_address(at, report);
  if (!master || at.set.find("Service", master->host, *at.work.object) != nullptr) return;
  const bool is_task =
      std::any_of(at.work.groups.begin(), at.work.groups.end(),
                  [&](const PodGroup& group) { return group.role == master->host; });
  if (!is_task) return;
  report.add(
      "RDZV005", master->place,
      fmt::format("{0} is the name of a task, and no host: with the plugin svc its first pod "
                  "is {1}-{0}-0.{1}",
                  printable(master->host), at.work.object->name));
}

bool is_headless(Ref service) { return service["spec"]["clusterIP"].text() == "None"; }

void check_service(const Case& at, const Object& service, const MasterAddress& master,
                   Report& report) {
  const bool is_other = service.root["spec"]["type"].text() == "ExternalName";
  if (is_other || service.is_patch) return;
  if (!is_headless(service.root)) {
    Finding& finding = report.add(
        "RDZV002", master.place,
        fmt::format("{} is a Service with an address of its own: connections to it are dealt out "
                    "to all of its pods",
                    in_quotes(service.name)));
    finding.evidence.push_back({service.source->name,
                                static_cast<uint64_t>(service.root.node()->place.line),
                                fmt::format("Service {}, no clusterIP: None", service.name)});
    return;
  }
  const bool waits = at.container->node["readinessProbe"] || at.container->node["startupProbe"];
  if (service.root["spec"]["publishNotReadyAddresses"].is_true() || !waits) return;
  report.add("RDZV004", master.place,
             fmt::format("the pods have a readiness probe, and the Service {} names them only once "
                         "they are ready",
                         in_quotes(service.name)));
}

void service_kind(const Case& at, Report& report) {
  if (at.container != at.pods->main()) return;
  const auto master = master_address(at, report);
  if (!master || is_ip_address(master->host)) return;
  const auto labels = labels_of(master->host);
  const bool is_pod_name = labels.size() >= 2 &&
                           at.set.find("Service", labels[1], *at.work.object) != nullptr &&
                           at.set.find("Service", labels[0], *at.work.object) == nullptr;
  const std::string_view name = is_pod_name ? labels[1] : labels.empty() ? "" : labels[0];
  const Object* service = at.set.find("Service", name, *at.work.object);
  if (service != nullptr) check_service(at, *service, *master, report);
}

// A Service that is only there for a rendezvous is mended where it stands.
bool is_rendezvous_port(Ref port) {
  for (std::string_view known : {"23456", "29500", "29400"}) {
    if (port["port"].text() == known) return true;
  }
  return false;
}

void service_itself(const ManifestSet&, const Object& object, Report& report) {
  if (object.kind != "Service" || object.api_version != "v1" || object.is_patch) return;
  const Ref spec = object.root["spec"];
  const auto ports = spec["ports"].items();
  const bool is_meant = std::any_of(ports.begin(), ports.end(),
                                    [](const YamlNode& port) { return is_rendezvous_port(port); });
  const std::string_view type = spec["type"].text();
  if (!is_meant || is_headless(object.root) || type == "ExternalName") return;
  Finding& finding = report.add_at_key(
      "RDZV002", spec, spec["clusterIP"] ? "clusterIP" : "ports",
      fmt::format("the Service {} for a rendezvous has an address of its own: connections to it "
                  "are dealt out to all of its pods",
                  in_quotes(object.name)));
  const bool is_plain = type.empty() || type == "ClusterIP";
  if (!spec["clusterIP"] && is_plain && !spec.keys().empty())
    put_edit(finding, insert_before(report.places(), spec.keys()[0], "clusterIP: None"));
}

bool is_index_kind(WorkloadKind kind) {
  return kind == WorkloadKind::kJob || kind == WorkloadKind::kCronJob || kind == WorkloadKind::kPod;
}

// `<pod>.<service>` needs the pod to say that it is below that service.
void name_without_subdomain(const Case& at, Report& report) {
  if (at.container != at.pods->main() || !is_index_kind(at.work.kind)) return;
  const auto master = master_address(at, report);
  if (!master || is_ip_address(master->host) || at.pods->spec["subdomain"]) return;
  const auto labels = labels_of(master->host);
  if (labels.size() < 2) return;
  const bool is_own_host = at.work.kind != WorkloadKind::kPod &&
                           labels[0].starts_with(at.work.object->name) &&
                           !at.work.object->name.empty();
  if (!is_own_host) return;
  report.add("RDZV005", master->place,
             fmt::format("the name {} exists only if the pods have subdomain: {} and a headless "
                         "Service of that name",
                         printable(master->host), labels[1]));
}

// bert-0, where the Job is called bert: its pods have such host names, and no name of one label.
void name_of_pod(const Case& at, Report& report) {
  const bool is_job = at.work.kind == WorkloadKind::kJob || at.work.kind == WorkloadKind::kCronJob;
  if (at.container != at.pods->main() || !is_job || at.pods->pods.value_or(0) < 2) return;
  const auto master = master_address(at, report);
  const std::string begin = std::string(at.work.object->name) + "-";
  if (!master || begin.size() == 1 || !master->host.starts_with(begin)) return;
  const std::string_view index = std::string_view(master->host).substr(begin.size());
  if (!count_of(index) || at.set.find("Service", master->host, *at.work.object) != nullptr) return;
  const Ref subdomain = at.pods->spec["subdomain"];
  report.add("RDZV005", master->place,
             fmt::format("no other pod can resolve {0}: the pods of an Indexed Job are found "
                         "below a headless Service, as {0}.{1}",
                         printable(master->host),
                         subdomain ? printable(subdomain.text())
                                   : std::string("SERVICE, with subdomain: SERVICE")));
}

// The pods of a JobSet are below its subdomain, which is its own name where none is given.
void name_of_jobset(const Case& at, Report& report) {
  if (at.container != at.pods->main() || at.work.kind != WorkloadKind::kJobSet) return;
  const auto master = master_address(at, report);
  const std::string_view name = at.work.object->name;
  if (!master || name.empty() || contains(master->host, "$")) return;
  const auto labels = labels_of(master->host);
  if (labels.size() < 2 || !labels[0].starts_with(std::string(name) + "-")) return;
  const std::string_view given = at.work.spec()["network"]["subdomain"].text();
  const std::string_view subdomain = given.empty() ? name : given;
  if (labels[1] == subdomain) return;
  report.add("RDZV005", master->place,
             fmt::format("{} does not exist: the pods of this JobSet are called {}.{}",
                         printable(master->host), labels[0], subdomain));
}

void ports_of_the_node(const Case& at, Report& report) {
  if (!at.pods->spec["hostNetwork"].is_true() || at.container != at.pods->main()) return;
  if (!at.work.is_training) return;
  const EnvVar* variable = find_variable(at.container->env, "MASTER_PORT");
  const auto option = at.container->command.option({"master-port", "rdzv-endpoint"});
  const bool is_pytorch = at.work.kind == WorkloadKind::kPytorchJob;
  Place place;
  std::string port;
  if (variable != nullptr && variable->value && count_of(*variable->value)) {
    place = variable->value_place;
    port = *variable->value;
  } else if (option && !option->value.empty()) {
    const size_t colon = option->value.rfind(':');
    port = option->value.substr(colon == std::string::npos ? 0 : colon + 1);
    place = place_within(report.places(), *option->word->node, option->word->offset);
  } else if (is_pytorch) {
    port = "23456";
    place = at.pods->spec.key("hostNetwork")->place;
  }
  if (!count_of(port)) return;
  report.add(
      "RDZV006", place,
      fmt::format("under hostNetwork port {} is the node's: a second job on that node cannot "
                  "take it",
                  port));
}

void port_value(const Case& at, Report& report) {
  const EnvVar* variable = find_variable(at.container->env, "MASTER_PORT");
  if (variable == nullptr || !variable->value || variable->value->empty()) return;
  if (is_placeholder(*variable->value)) return;
  const auto port = count_of(*variable->value);
  if (port && *port >= 1 && *port <= 65535) return;
  report.add("RDZV007", variable->value_place,
             fmt::format("MASTER_PORT={} is no port", printable(*variable->value)));
}

bool selects(Ref selector, Ref labels) {
  for (size_t i = 0; i < selector.keys().size(); ++i) {
    if (labels[selector.keys()[i].text].text() != Ref(selector.items()[i]).text()) return false;
  }
  return true;
}

// Labels that a controller puts on pods and that no template shows.
bool is_controllers_label(std::string_view key) {
  for (std::string_view part : {"kubernetes.io/", "k8s.io/", "kubeflow.org/", "volcano.sh/",
                                "ray.io/", "job-name", "controller-uid", "sigs.k8s.io/"}) {
    if (contains(key, part)) return true;
  }
  return false;
}

void selects_nothing(const ManifestSet& set, const Object& object, Report& report) {
  if (object.kind != "Service" || object.is_patch || object.api_version != "v1") return;
  const Ref selector = object.root["spec"]["selector"];
  if (!is_headless(object.root) || !selector.is_mapping() || selector.keys().empty()) return;
  for (const YamlKey& key : selector.keys()) {
    if (is_controllers_label(key.text)) return;
  }
  size_t templates = 0;
  for (const Workload* work : set.workloads_around(object)) {
    if (work->object->source != object.source) return;
    for (const PodGroup& group : work->groups) {
      if (!group.pod_template) return;
      ++templates;
      if (selects(selector, group.labels())) return;
    }
  }
  if (templates == 0) return;
  report.add_at_key("RDZV008", object.root["spec"], "selector",
                    fmt::format("the Service {} selects none of the pods in this file: its names "
                                "will not resolve",
                                in_quotes(object.name)));
}

void sidecar(const Case& at, Report& report) {
  if (!at.work.is_training || !at.work.is_spread()) return;
  for (Ref map : {at.pods->labels(), at.pods->annotations()}) {
    if (map["sidecar.istio.io/inject"].text() != "true") continue;
    report.add_at_key("RDZV009", map, "sidecar.istio.io/inject",
                      "a mesh proxy beside the ranks: it is not ready when they connect, breaks "
                      "their long connections, and keeps the pod running after the end");
  }
}

bool refuses_proxy(const PodGroup& group) {
  constexpr std::string_view kInject = "sidecar.istio.io/inject";
  return group.labels()[kInject].text() == "false" ||
         group.annotations()[kInject].text() == "false";
}

bool names_proxy(const PodGroup& group) {
  constexpr std::string_view kInject = "sidecar.istio.io/inject";
  return group.labels()[kInject] || group.annotations()[kInject];
}

// A proxy is refused for some pods of a world, and the others get it.
void sidecar_on_some(const Case& at, Report& report) {
  if (!at.work.is_training) return;
  const auto& groups = at.work.groups;
  const auto refusing = std::find_if(groups.begin(), groups.end(), refuses_proxy);
  if (refusing == groups.end()) return;
  for (const PodGroup& group : groups) {
    if (names_proxy(group) || group.pods == 0 || !group.pod_template) continue;
    report.add_at_key("RDZV009", group.entry, "template",
                      fmt::format("{} refuses the mesh proxy and {} does not: where the namespace "
                                  "injects it, these pods cannot reach the others",
                                  in_quotes(refusing->role), in_quotes(group.role)));
    return;
  }
}

constexpr Rule kRules[] = {
    {"RDZV001 RDZV003", ContainerRule{literal_address}},
    {"RDZV002 RDZV004", ContainerRule{service_kind}},
    {"RDZV002", ObjectRule{service_itself}},
    {"RDZV003", ContainerRule{own_address}},
    {"RDZV005", ContainerRule{volcano_names, Needs::kWholeObject}},
    {"RDZV005", ContainerRule{name_of_task, Needs::kWholeObject}},
    {"RDZV005", ContainerRule{name_without_subdomain, Needs::kWholeObject}},
    {"RDZV005", ContainerRule{name_of_pod, Needs::kWholeObject}},
    {"RDZV005", ContainerRule{name_of_jobset, Needs::kWholeObject}},
    {"RDZV006", ContainerRule{ports_of_the_node}},
    {"RDZV007", ContainerRule{port_value}},
    {"RDZV008", ObjectRule{selects_nothing}},
    {"RDZV009", PodRule{sidecar}},
    {"RDZV009", WorkloadRule{sidecar_on_some, Needs::kWholeObject}},
};

}  // namespace

extern const std::span<const Rule> kRdzvRules = kRules;

}  // namespace shanty::lint
