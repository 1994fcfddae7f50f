#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "lint/case_questions.h"
#include "lint/nccl_variables.h"
#include "lint/yaml_edits.h"
#include "text/utf8.h"

namespace shanty::lint {
namespace {

void check_environment(const Environment& env, Report& report) {
  for (const EnvVar& variable : env) {
    const std::string value = variable.value.value_or("");
    if (is_placeholder(value)) continue;
    const auto problem = check_nccl_variable(variable.name, value);
    if (!problem) continue;
    const bool is_value = problem->new_name.empty();
    Finding& finding = report.add(problem->code, is_value ? variable.value_place : variable.place,
                                  problem->message);
    const TextPlaces& places = report.places();
    if (!problem->new_value.empty() && variable.value_node != nullptr) {
      const bool is_number = problem->new_value == "0" || problem->new_value == "1";
      put_edit(finding,
               replace_scalar(places, *variable.value_node,
                              is_number ? "\"" + problem->new_value + "\"" : problem->new_value));
    }
    const auto name_at = places.offset(variable.place);
    const bool is_written_so =
        name_at && places.text().substr(*name_at, variable.name.size()) == variable.name;
    if (!problem->new_name.empty() && is_written_so)
      finding.edits.push_back({*name_at, *name_at + variable.name.size(), problem->new_name});
  }
}

void variables(const Case& at, Report& report) { check_environment(at.container->env, report); }

// `mpirun -x NAME=value`.
void variables_of_mpirun(const Case& at, Report& report) {
  const auto& words = at.container->command.words();
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t equals = words[i].text.find('=');
    if (words[i - 1].text != "-x" || equals == std::string::npos) continue;
    const auto problem =
        check_nccl_variable(words[i].text.substr(0, equals), words[i].text.substr(equals + 1));
    if (problem) report.add_at_word(problem->code, words[i], problem->message);
  }
}

// Handed to pods by envFrom.
void variables_of_map(const ManifestSet&, const Object& object, Report& report) {
  if (object.kind != "ConfigMap") return;
  const Ref data = object.root["data"];
  Environment env;
  for (size_t i = 0; i < data.keys().size(); ++i) {
    const YamlNode& value = data.items()[i];
    if (!data.keys()[i].text.starts_with("NCCL_")) continue;
    env.push_back({.name = data.keys()[i].text,
                   .value = value.text,
                   .place = data.keys()[i].place,
                   .value_place = value.place,
                   .value_node = &value});
  }
  check_environment(env, report);
}

void variables_of_image(const Dockerfile& file, Report& report) {
  check_environment(file.env, report);
}
void variables_of_job(const JobSource& job, Report& report) { check_environment(job.env, report); }

void disabled_with_rdma(const Case& at, Report& report) {
  const EnvVar* variable = find_variable(at.container->env, "NCCL_IB_DISABLE");
  if (variable == nullptr || !variable->value || *variable->value != "1") return;
  const bool has_hca = find_variable(at.container->env, "NCCL_IB_HCA") != nullptr;
  if (!at.container->asks_rdma() && !has_hca) return;
  report.add("NCCL001", variable->value_place,
             fmt::format("NCCL_IB_DISABLE=1 beside {}: the ranks talk over TCP",
                         at.container->asks_rdma() ? "an RDMA device" : "NCCL_IB_HCA"));
}

void disabled_in_job(const JobSource& job, Report& report) {
  const EnvVar* variable = find_variable(job.env, "NCCL_IB_DISABLE");
  const auto rdma = job.parsed.job.network.rdma;
  if (variable == nullptr || !variable->value || *variable->value != "1" || !rdma || !*rdma) return;
  report.add("NCCL001", variable->value_place, "NCCL_IB_DISABLE=1 beside network.rdma: true");
}

bool may_differ(std::string_view name) {
  return !name.starts_with("NCCL_") || name.starts_with("NCCL_DEBUG") ||
         contains(name, "_DUMP_FILE") || name == "NCCL_HOSTID" || name == "NCCL_COMM_ID";
}

void differing(const Case& at, Report& report) {
  const Container* first = nullptr;
  for (const PodGroup& group : at.work.groups) {
    const Container* main = group.main();
    if (main == nullptr || group.gpus_per_pod() == 0 || !at.work.is_training) continue;
    if (first == nullptr) first = main;
    for (const EnvVar& variable : main->env) {
      if (may_differ(variable.name) || !variable.value) continue;
      const EnvVar* other = find_variable(first->env, variable.name);
      if (other != nullptr && other->value == variable.value) continue;
      report.add("NCCL008", variable.value_place,
                 other == nullptr
                     ? fmt::format("{} is set for {} and not for the pods before", variable.name,
                                   in_quotes(group.role))
                     : fmt::format("{} is {} for {} and {} for the pods before", variable.name,
                                   printable(*variable.value), in_quotes(group.role),
                                   printable(other->value.value_or("set elsewhere"))));
    }
    for (const EnvVar& variable : first->env) {
      if (may_differ(variable.name) || find_variable(main->env, variable.name) != nullptr) continue;
      report.add(
          "NCCL008", variable.place,
          fmt::format("{} is set here and not for {}", variable.name, in_quotes(group.role)));
    }
  }
}

bool hands_on(const CommandLine& command, std::string_view name) {
  const auto& words = command.words();
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string_view word = words[i].text;
    if (words[i - 1].text == "-x" && word.substr(0, word.find('=')) == name) return true;
    if (contains(word, "env_list") || word == "-genvall" || word == "-envall") return true;
  }
  return false;
}

// Open MPI hands on none of the launcher's environment but what -x names.
void on_launcher_only(const Case& at, Report& report) {
  const std::string_view kind = at.work.spec()["mpiImplementation"].text();
  if (at.work.kind != WorkloadKind::kMpiJob || (!kind.empty() && kind != "OpenMPI")) return;
  const Container* launcher = nullptr;
  const Container* worker = nullptr;
  for (const PodGroup& group : at.work.groups) {
    if (group.role == "Launcher") launcher = group.main();
    if (group.role == "Worker") worker = group.main();
  }
  if (launcher == nullptr || worker == nullptr ||
      launcher->command.launcher() != Launcher::kMpirun) {
    return;
  }
  for (const EnvVar& variable : launcher->env) {
    if (variable.name.starts_with("OMPI_MCA_mca_base_env")) return;
  }
  for (const EnvVar& variable : launcher->env) {
    if (!variable.name.starts_with("NCCL_") || find_variable(worker->env, variable.name) ||
        hands_on(launcher->command, variable.name)) {
      continue;
    }
    report.add("NCCL008", variable.place,
               fmt::format("{} is set for the launcher alone: mpirun hands on to the ranks only "
                           "what -x names",
                           variable.name));
    return;
  }
}

void slow_paths(const Case& at, Report& report) {
  for (std::string_view name : {"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"}) {
    const EnvVar* variable = find_variable(at.container->env, name);
    const bool is_set = variable != nullptr && variable->value && *variable->value == "1";
    if (!is_set || at.container->gpus() < 2) continue;
    report.add("NCCL007", variable->value_place,
               fmt::format("{}=1 with {} in one container: they talk the long way round", name,
                           counted(at.container->gpus(), "GPU")));
  }
}

void sockets(const Case& at, Report& report) {
  constexpr int64_t kMost = 64;
  const EnvVar* threads = find_variable(at.container->env, "NCCL_SOCKET_NTHREADS");
  const EnvVar* each = find_variable(at.container->env, "NCCL_NSOCKS_PERTHREAD");
  if (threads == nullptr || each == nullptr || !threads->value || !each->value) return;
  const auto a = count_of(*threads->value);
  const auto b = count_of(*each->value);
  if (!a || !b || *a > kMost * kMost || *b > kMost * kMost || *a * *b <= kMost) return;
  report.add(
      "NCCL006", each->value_place,
      fmt::format("{} threads with {} sockets each are more than {}, and NCCL cuts them down", *a,
                  *b, kMost));
}

constexpr Rule kRules[] = {
    {"NCCL002 NCCL003 NCCL004 NCCL006", ContainerRule{variables}},
    {"NCCL002 NCCL003 NCCL004 NCCL006", DockerfileRule{variables_of_image}},
    {"NCCL002 NCCL003 NCCL004 NCCL006", JobRule{variables_of_job}},
    {"NCCL002 NCCL003 NCCL004 NCCL006", ContainerRule{variables_of_mpirun}},
    {"NCCL002 NCCL003 NCCL004 NCCL006", ObjectRule{variables_of_map}},
    {"NCCL001", ContainerRule{disabled_with_rdma}},
    {"NCCL001", JobRule{disabled_in_job}},
    {"NCCL007", ContainerRule{slow_paths}},
    {"NCCL008", WorkloadRule{differing}},
    {"NCCL008", WorkloadRule{on_launcher_only, Needs::kWholeObject}},
    {"NCCL006", ContainerRule{sockets}},
};

}  // namespace

extern const std::span<const Rule> kNcclRules = kRules;

}  // namespace shanty::lint
