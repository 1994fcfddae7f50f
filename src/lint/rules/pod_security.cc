#include <algorithm>

#include <fmt/format.h>

#include "lint/case_questions.h"
#include "text/utf8.h"

namespace shanty::lint {
namespace {

constexpr std::string_view kEnforce = "pod-security.kubernetes.io/enforce";

constexpr std::string_view kBaselineCapabilities[] = {
    "AUDIT_WRITE",      "CHOWN",   "DAC_OVERRIDE", "FOWNER",  "FSETID", "KILL",      "MKNOD",
    "NET_BIND_SERVICE", "SETFCAP", "SETGID",       "SETPCAP", "SETUID", "SYS_CHROOT"};
constexpr std::string_view kSafeSysctls[] = {
    "kernel.shm_rmid_forced",           "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports", "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",        "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",     "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",      "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",          "net.ipv4.tcp_wmem"};
constexpr std::string_view kSelinuxTypes[] = {"container_t", "container_init_t", "container_kvm_t",
                                              "container_engine_t"};
constexpr std::string_view kRestrictedVolumes[] = {
    "configMap", "csi",   "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim",
    "projected", "secret"};

template <typename List>
bool is_in(const List& list, std::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

// What a level refuses in one pod, in the order of the standard, and where the first of it stands.
class Violations {
 public:
  void add(std::string_view what, Ref at) {
    if (std::find(what_.begin(), what_.end(), what) != what_.end()) return;
    what_.emplace_back(what);
    if (!place_ && at) place_ = at.node()->place;
  }
  void add_at_key(std::string_view what, Ref mapping, std::string_view key) {
    if (!place_ && mapping.key(key) != nullptr) place_ = mapping.key(key)->place;
    add(what, mapping);
  }
  bool empty() const { return what_.empty(); }
  std::string text() const { return fmt::format("{}", fmt::join(what_, ", ")); }
  std::optional<Place> place() const { return place_; }

 private:
  std::vector<std::string> what_;
  std::optional<Place> place_;
};

template <typename See>
void each_container(Ref spec, const See& see) {
  for (std::string_view list : {"initContainers", "containers", "ephemeralContainers"}) {
    if (!spec[list].is_sequence()) continue;
    for (const YamlNode& container : spec[list].items()) see(Ref(container));
  }
}

// What holds for a pod's and a container's security context alike.
void check_context(Ref context, Violations& out) {
  const Ref seccomp = context["seccompProfile"]["type"];
  if (seccomp.text() == "Unconfined") out.add("seccompProfile Unconfined", seccomp);
  const Ref apparmor = context["appArmorProfile"]["type"];
  if (apparmor.text() == "Unconfined") out.add("appArmorProfile Unconfined", apparmor);
  const Ref selinux = context["seLinuxOptions"];
  const std::string_view type = selinux["type"].text();
  if ((!type.empty() && !is_in(kSelinuxTypes, type)) || !selinux["user"].text().empty() ||
      !selinux["role"].text().empty())
    out.add("seLinuxOptions", selinux);
  const Ref windows = context["windowsOptions"]["hostProcess"];
  if (windows.is_true()) out.add("hostProcess", windows);
}

void check_baseline(Ref spec, Violations& out) {
  for (std::string_view key : {"hostNetwork", "hostPID", "hostIPC"}) {
    if (spec[key].is_true()) out.add_at_key(key, spec, key);
  }
  for (const YamlNode& volume : spec["volumes"].items()) {
    if (Ref(volume)["hostPath"]) out.add("hostPath volumes", Ref(volume)["hostPath"]);
  }
  check_context(spec["securityContext"], out);
  for (const YamlNode& sysctl : spec["securityContext"]["sysctls"].items()) {
    const Ref name = Ref(sysctl)["name"];
    if (name && !is_in(kSafeSysctls, name.text()))
      out.add(fmt::format("sysctl {}", printable(name.text())), name);
  }
  each_container(spec, [&](Ref container) {
    const Ref context = container["securityContext"];
    if (context["privileged"].is_true()) out.add_at_key("privileged", context, "privileged");
    check_context(context, out);
    for (const YamlNode& item : context["capabilities"]["add"].items()) {
      if (!is_in(kBaselineCapabilities, item.text))
        out.add(fmt::format("capability {}", printable(item.text)), item);
    }
    const std::string_view mount = context["procMount"].text();
    if (!mount.empty() && mount != "Default") out.add("procMount", context["procMount"]);
    for (const YamlNode& port : container["ports"].items()) {
      const Ref host = Ref(port)["hostPort"];
      if (host && host.text() != "0") out.add("hostPort", host);
    }
  });
}

bool is_confined(Ref context) {
  const std::string_view type = context["seccompProfile"]["type"].text();
  return type == "RuntimeDefault" || type == "Localhost";
}

void check_restricted_container(Ref spec, Ref container, Violations& out) {
  const Ref of_pod = spec["securityContext"];
  const Ref context = container["securityContext"];
  const Ref at = context ? context : container;
  if (context["allowPrivilegeEscalation"].text() != "false")
    out.add("no allowPrivilegeEscalation: false", at);
  const bool drops = [&] {
    for (const YamlNode& item : context["capabilities"]["drop"].items()) {
      if (item.text == "ALL") return true;
    }
    return false;
  }();
  if (!drops) out.add("no capabilities.drop: [ALL]", at);
  for (const YamlNode& item : context["capabilities"]["add"].items()) {
    if (item.text != "NET_BIND_SERVICE")
      out.add(fmt::format("capability {}", printable(item.text)), item);
  }
  const Ref non_root = context["runAsNonRoot"] ? context["runAsNonRoot"] : of_pod["runAsNonRoot"];
  if (!non_root.is_true()) out.add("no runAsNonRoot: true", at);
  if (context["runAsUser"].text() == "0") out.add("runAsUser 0", context["runAsUser"]);
  if (!is_confined(context) && (context["seccompProfile"] || !is_confined(of_pod)))
    out.add("no seccompProfile RuntimeDefault", at);
}

void check_restricted(Ref spec, Violations& out) {
  for (const YamlNode& volume : spec["volumes"].items()) {
    for (const YamlKey& key : Ref(volume).keys()) {
      if (key.text == "name" || key.text == "hostPath" || is_in(kRestrictedVolumes, key.text))
        continue;
      out.add(fmt::format("{} volumes", printable(key.text)), volume);
    }
  }
  if (spec["securityContext"]["runAsUser"].text() == "0")
    out.add("runAsUser 0", spec["securityContext"]["runAsUser"]);
  each_container(spec, [&](Ref container) { check_restricted_container(spec, container, out); });
}

// The API server refuses the pods, and the controller tries for ever.
void refused(const Case& at, Report& report) {
  const std::string_view name = at.work.metadata()["namespace"].text();
  if (name.empty() || !at.pods->spec) return;
  const Object* space = at.set.find("Namespace", name, *at.work.object);
  if (space == nullptr) return;
  const std::string_view level = space->root["metadata"]["labels"][kEnforce].text();
  if (level != "baseline" && level != "restricted") return;
  Violations found;
  check_baseline(at.pods->spec, found);
  if (level == "restricted") check_restricted(at.pods->spec, found);
  if (found.empty()) return;
  Finding& finding =
      report.add("SEC004", found.place().value_or(Place{}),
                 fmt::format("the namespace {} enforces the level {}, which refuses {}: {}",
                             in_quotes(name), level, pods_named(at), found.text()));
  finding.evidence.push_back({space->source->name,
                              static_cast<uint64_t>(space->root.node()->place.line),
                              fmt::format("Namespace {}, {}: {}", name, kEnforce, level)});
}

constexpr Rule kRules[] = {
    {"SEC004", PodRule{refused, Needs::kWholeObject}},
};

}  // namespace

extern const std::span<const Rule> kPodSecurityRules = kRules;

}  // namespace shanty::lint
