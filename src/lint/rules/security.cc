#include <algorithm>

#include <fmt/format.h>

#include "lint/case_questions.h"
#include "lint/secret_words.h"
#include "text/utf8.h"

namespace shanty::lint {
namespace {

// What agents of a node do is their business.
bool is_agent(const Case& at) { return at.work.kind == WorkloadKind::kDaemonSet; }

bool matters(const Case& at) {
  return at.pods->spec && !is_agent(at) && (at.work.is_training || at.work.gpus() > 0);
}

void privileged(const Case& at, Report& report) {
  const Ref flag = at.container->node["securityContext"]["privileged"];
  if (!flag.is_true() || !matters(at)) return;
  report.add("SEC001", flag,
             fmt::format("container {} is privileged: whoever runs code in it owns the node",
                         in_quotes(at.container->name)));
}

void strong_capability(const Case& at, Report& report) {
  if (!matters(at)) return;
  for (const YamlNode& item :
       at.container->node["securityContext"]["capabilities"]["add"].items()) {
    for (std::string_view strong : {"ALL", "SYS_ADMIN", "SYS_MODULE", "SYS_RAWIO"}) {
      if (item.text != strong && item.text != "CAP_" + std::string(strong)) continue;
      report.add("SEC001", item,
                 fmt::format("container {} has the capability {}, which is as good as privileged",
                             in_quotes(at.container->name), strong));
    }
  }
}

bool is_sensitive(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  for (std::string_view known : {"/", "/etc", "/root", "/home", "/proc", "/sys", "/var", "/boot",
                                 "/var/lib/kubelet", "/var/run", "/run", "/dev"}) {
    if (path == known) return true;
  }
  return path.starts_with("/etc/kubernetes") || contains(path, "docker.sock") ||
         contains(path, "containerd.sock") || path.starts_with("/var/lib/kubelet/pods");
}

void host_path(const Case& at, Report& report) {
  if (!matters(at)) return;
  for (const YamlNode& node : at.pods->spec["volumes"].items()) {
    const Ref path = Ref(node)["hostPath"]["path"];
    if (path.text().empty() || !is_sensitive(path.text())) continue;
    report.add("SEC002", path,
               fmt::format("{} of the node is in the pod: code in it can take over the node",
                           printable(path.text())));
  }
}

void secret_in_env(const Case& at, Report& report) {
  for (const EnvVar& variable : at.container->env) {
    if (!variable.value || !is_written_secret(variable.name, *variable.value)) continue;
    report.add("SEC003", variable.place,
               fmt::format("the value of {} is written in: it is readable by all who can read the "
                           "object or the file",
                           variable.name));
  }
}

void secret_in_image(const Dockerfile& file, Report& report) {
  for (const DockerInstruction& instruction : file.instructions) {
    if (instruction.name != "ENV" && instruction.name != "ARG") continue;
    const auto& words = instruction.words;
    for (size_t i = 0; i < words.size(); ++i) {
      const std::string& text = words[i].text;
      const size_t equals = text.find('=');
      const bool is_pair = equals != std::string::npos;
      const bool is_old = !is_pair && instruction.name == "ENV" && i == 0 && words.size() > 1;
      if (!is_pair && !is_old) continue;
      const std::string name = text.substr(0, equals);
      const std::string value = is_pair ? text.substr(equals + 1) : words[1].text;
      if (!is_written_secret(name, value)) continue;
      report.add("SEC003", report.places().place(words[i].offset),
                 fmt::format("the value of {} stays in the image's history", name));
    }
  }
}

// ARG HF_TOKEN: what is handed to the build stands in the history of each RUN after it.
void secret_as_argument(const Dockerfile& file, Report& report) {
  for (const DockerInstruction* instruction : file.final_instructions()) {
    if (instruction->name != "ARG") continue;
    for (const DockerWord& word : instruction->words) {
      const size_t equals = word.text.find('=');
      const std::string_view name = std::string_view(word.text).substr(0, equals);
      const std::string_view value = equals == std::string::npos
                                         ? std::string_view()
                                         : std::string_view(word.text).substr(equals + 1);
      if (!names_secret(name) || !(value.empty() || value == "\"\"")) continue;
      report.add("SEC003", report.places().place(word.offset),
                 fmt::format("{} is handed to the build as an argument: its value stays in the "
                             "image's history",
                             name));
    }
  }
}

// What holds nothing but secrets, by its usual name; an example of it does not.
bool is_file_of_secrets(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  for (std::string_view known : {".env", ".env.local", ".env.keys", ".netrc", "id_rsa",
                                 "id_ed25519", "kaggle.json", ".pypirc", ".git-credentials"}) {
    if (name == known) return true;
  }
  return name.ends_with(".key") || path.ends_with(".aws/credentials") ||
         path.ends_with(".kube/config") || path.ends_with(".docker/config.json");
}

void secret_file_in_image(const Dockerfile& file, Report& report) {
  for (const DockerInstruction* instruction : file.final_instructions()) {
    const auto& words = instruction->words;
    if ((instruction->name != "COPY" && instruction->name != "ADD") || words.size() < 2) continue;
    for (size_t i = 0; i + 1 < words.size(); ++i) {
      if (!is_file_of_secrets(words[i].text)) continue;
      report.add("SEC003", report.places().place(words[i].offset),
                 fmt::format("{} is copied into the image: whoever may pull it can read what it "
                             "holds, even if a later layer removes it",
                             in_quotes(words[i].text)));
      break;
    }
  }
}

void secret_in_map(const ManifestSet&, const Object& object, Report& report) {
  if (object.kind != "ConfigMap") return;
  const Ref data = object.root["data"];
  for (size_t i = 0; i < data.keys().size(); ++i) {
    const std::string_view value = Ref(data.items()[i]).text();
    if (!is_written_secret(data.keys()[i].text, value)) continue;
    report.add(
        "SEC003", data.keys()[i].place,
        fmt::format("the value of {} is in a ConfigMap, which is no secret", data.keys()[i].text));
  }
}

void secret_in_job(const JobSource& job, Report& report) {
  for (const EnvVar& variable : job.env) {
    if (!variable.value || !is_written_secret(variable.name, *variable.value)) continue;
    report.add("SEC003", variable.place,
               fmt::format("the value of {} is written into the job file", variable.name));
  }
}

void host_namespaces(const Case& at, Report& report) {
  if (!matters(at) || !at.pods->spec["hostPID"].is_true()) return;
  report.add_at_key("SEC001", at.pods->spec, "hostPID",
                    "hostPID: the pod sees and can signal all processes of the node");
}

constexpr Rule kRules[] = {
    {"SEC001", ContainerRule{privileged}},
    {"SEC002", PodRule{host_path}},
    {"SEC003", ContainerRule{secret_in_env}},
    {"SEC003", DockerfileRule{secret_in_image}},
    {"SEC003", DockerfileRule{secret_as_argument}},
    {"SEC003", DockerfileRule{secret_file_in_image}},
    {"SEC003", ObjectRule{secret_in_map}},
    {"SEC003", JobRule{secret_in_job}},
    {"SEC001", PodRule{host_namespaces}},
    {"SEC001", ContainerRule{strong_capability}},
};

}  // namespace

extern const std::span<const Rule> kSecurityRules = kRules;

}  // namespace shanty::lint
