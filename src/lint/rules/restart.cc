#include <algorithm>

#include <fmt/format.h>

#include "lint/case_questions.h"
#include "lint/yaml_edits.h"
#include "text/utf8.h"

namespace shanty::lint {
namespace {

bool is_launched(const PodGroup& group) {
  const Container* main = group.main();
  return main != nullptr && main->command.launcher() == Launcher::kTorchrun;
}

// Where the object says how long it stays after its end.
Ref ttl_of(const Workload& work) {
  const Ref spec = work.spec();
  for (Ref at : {spec["ttlSecondsAfterFinished"], spec["runPolicy"]["ttlSecondsAfterFinished"],
                 spec["jobTemplate"]["spec"]["ttlSecondsAfterFinished"]}) {
    if (at) return at;
  }
  return {};
}

void no_ttl(const Case& at, Report& report) {
  const bool is_kind =
      at.work.kind == WorkloadKind::kJob || at.work.kind == WorkloadKind::kPytorchJob ||
      at.work.kind == WorkloadKind::kJobSet || at.work.kind == WorkloadKind::kVolcanoJob ||
      at.work.kind == WorkloadKind::kMpiJob;
  if (!is_kind || !holds_accelerators(at.work) || ttl_of(at.work) || at.work.object->wrapper)
    return;
  report.add_at_key("RST001", at.work.object->root, "kind",
                    fmt::format("the {} stays after its end until somebody deletes it: it has no "
                                "ttlSecondsAfterFinished",
                                at.work.object->kind));
}

void pods_left_running(const Case& at, Report& report) {
  const bool is_mpi = at.work.kind == WorkloadKind::kMpiJob;
  if ((!is_mpi && at.work.kind != WorkloadKind::kPytorchJob) || !at.work.is_spread()) return;
  const Ref spec = at.work.spec();
  const Ref run = spec["runPolicy"];
  const bool is_misplaced = !is_mpi && spec["cleanPodPolicy"] && !run["cleanPodPolicy"];
  if (is_misplaced) {
    report.add_at_key("RST002", spec, "cleanPodPolicy",
                      "cleanPodPolicy is read below runPolicy; here it is dropped, and None holds");
    return;
  }
  const Ref policy = run["cleanPodPolicy"] ? run["cleanPodPolicy"] : spec["cleanPodPolicy"];
  if (at.work.gpus() == 0 || (policy && policy.text() != "None")) return;
  const std::string_view when = is_mpi ? "when the launcher has ended" : "when one pod has failed";
  Finding& finding =
      policy
          ? report.add("RST002", policy,
                       fmt::format("cleanPodPolicy: None: {} the others keep running and hold "
                                   "their GPUs",
                                   when))
          : report.add_at_key("RST002", at.work.object->root, "kind",
                              fmt::format("cleanPodPolicy is None by default: {} the others keep "
                                          "running and hold their GPUs",
                                          when));
  const TextPlaces& places = report.places();
  const bool is_v1_mpi = at.work.object->api_version == "kubeflow.org/v1";
  if (policy) {
    put_edit(finding, replace_scalar(places, *policy.node(), "Running"));
  } else if (!run.keys().empty()) {
    put_edit(finding, insert_before(places, run.keys()[0], "cleanPodPolicy: Running"));
  } else if (!run && !spec.keys().empty() && !is_v1_mpi) {
    put_edit(finding,
             insert_before(places, spec.keys()[0], "runPolicy:\n  cleanPodPolicy: Running"));
  }
}

bool runs_for_ever(const PodGroup& group) {
  const Container* main = group.main();
  if (main == nullptr) return false;
  const auto& words = main->command.words();
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string_view word = words[i].text;
    const std::string_view next = words[i + 1].text;
    if (word.substr(word.rfind('/') + 1) == "sshd" && next.starts_with("-D")) return true;
    if (word == "sleep" && (next == "infinity" || next == "inf")) return true;
  }
  return false;
}

bool completes_job(Ref policies) {
  const auto items = policies.items();
  return std::any_of(items.begin(), items.end(), [](const YamlNode& item) {
    return Ref(item)["action"].text() == "CompleteJob";
  });
}

// A Volcano Job has ended when all its pods have, and a server never does.
void servers_never_end(const Case& at, Report& report) {
  if (at.work.kind != WorkloadKind::kVolcanoJob || at.work.spec()["minSuccess"]) return;
  const auto& tasks = at.work.groups;
  const bool is_completed = completes_job(at.work.spec()["policies"]) ||
                            std::any_of(tasks.begin(), tasks.end(), [](const PodGroup& group) {
                              return completes_job(group.entry["policies"]);
                            });
  const auto server = std::find_if(tasks.begin(), tasks.end(), runs_for_ever);
  if (is_completed || server == tasks.end() || tasks.size() < 2) return;
  report.add_at_key("RST002", at.work.spec(), "tasks",
                    fmt::format("the pods of {} wait for ever, and no policy says CompleteJob when "
                                "the others are done: the job does not end, and they keep what "
                                "they hold",
                                in_quotes(server->role)));
}

void ray_cluster_left(const Case& at, Report& report) {
  if (at.work.object->kind != "RayJob" || at.work.spec()["clusterSelector"]) return;
  const Ref spec = at.work.spec();
  if (spec["shutdownAfterJobFinishes"].is_true() || spec["deletionStrategy"] ||
      !holds_accelerators(at.work))
    return;
  Finding& finding = report.add_at_key(
      "RST003", spec, spec["shutdownAfterJobFinishes"] ? "shutdownAfterJobFinishes" : "entrypoint",
      fmt::format(
          "the RayCluster stays after the job and holds its {}s: shutdownAfterJobFinishes is "
          "not set",
          at.work.gpus() > 0 ? "GPU" : "TPU"));
  if (spec["shutdownAfterJobFinishes"]) {
    put_edit(finding,
             replace_scalar(report.places(), *spec["shutdownAfterJobFinishes"].node(), "true"));
  } else if (!spec.keys().empty()) {
    put_edit(finding,
             insert_before(report.places(), spec.keys()[0], "shutdownAfterJobFinishes: true"));
  }
}

void exit_code_policy(const Case& at, Report& report) {
  const Ref policy = at.pods->entry["restartPolicy"];
  if (at.work.kind != WorkloadKind::kPytorchJob || policy.text() != "ExitCode") return;
  if (is_launched(*at.pods)) {
    report.add("RST004", policy,
               "torchrun ends with 1 whatever happened to its workers, and ExitCode takes 1 to 127 "
               "for final: nothing is restarted");
  }
  const Ref limit = at.work.spec()["runPolicy"]["backoffLimit"];
  if (limit.integer().value_or(0) > 0) {
    Finding& finding =
        report.add("RST004", limit,
                   "under ExitCode the operator does not count restarts against a backoffLimit");
    finding.severity = Severity::kNote;
  }
}

bool is_elastic(const Case& at) {
  const auto backend = at.pods->main()->command.option("rdzv-backend");
  return at.work.spec()["elasticPolicy"] || (backend && backend->value == "c10d");
}

void one_pod_restarts(const Case& at, Report& report) {
  const bool is_job = at.work.kind == WorkloadKind::kJob || at.work.kind == WorkloadKind::kJobSet;
  if (!is_job || !at.work.is_training || !at.work.is_spread() || at.pods->main() == nullptr) return;
  const bool restarts = at.pods->spec["restartPolicy"].text() == "OnFailure" ||
                        (at.work.kind == WorkloadKind::kJobSet && !at.pods->spec["restartPolicy"]);
  if (at.pods->gpus_per_pod() == 0 || !restarts || is_elastic(at)) return;
  report.add_at_key("RST005", at.pods->spec, "restartPolicy",
                    "one pod is restarted in place while the others wait for it in a collective "
                    "until their timeout");
}

void missing_policy(const Case& at, Report& report) {
  const Ref policy = at.pods->spec["restartPolicy"];
  const bool is_job = at.work.kind == WorkloadKind::kJob || at.work.kind == WorkloadKind::kCronJob;
  const YamlKey* first = at.pods->spec.keys().empty() ? nullptr : &at.pods->spec.keys()[0];
  if (is_job && (!policy || policy.text() == "Always")) {
    Finding& finding = report.add_at_key(
        "RST006", at.pods->spec, policy ? "restartPolicy" : "containers",
        policy ? "restartPolicy: Always is refused in a Job: it is Never or OnFailure"
               : "a Job without restartPolicy is refused: it is Never or OnFailure");
    const TextPlaces& places = report.places();
    put_edit(finding, policy             ? replace_scalar(places, *policy.node(), "Never")
                      : first != nullptr ? insert_before(places, *first, "restartPolicy: Never")
                                         : std::nullopt);
    return;
  }
  const bool is_bare =
      at.work.kind == WorkloadKind::kPod || at.work.kind == WorkloadKind::kVolcanoJob;
  if (!is_bare || !at.work.is_training || (policy && policy.text() != "Always")) return;
  Finding& finding =
      report.add_at_key("RST007", at.pods->spec, policy ? "restartPolicy" : "containers",
                        "the pod starts its training again after it has ended well: "
                        "restartPolicy is Always unless it is said");
  const TextPlaces& places = report.places();
  put_edit(finding, policy             ? replace_scalar(places, *policy.node(), "OnFailure")
                    : first != nullptr ? insert_before(places, *first, "restartPolicy: OnFailure")
                                       : std::nullopt);
}

void failure_policy(const Case& at, Report& report) {
  if (at.work.kind != WorkloadKind::kJob && at.work.kind != WorkloadKind::kJobSet) return;
  const Ref spec = at.pods->entry;
  const std::string_view policy = at.pods->spec["restartPolicy"].text();
  if (policy == "Never" || policy.empty()) return;
  for (std::string_view key : {"podFailurePolicy", "backoffLimitPerIndex"}) {
    if (!spec[key]) continue;
    report.add_at_key(
        "RST006", spec, key,
        fmt::format("{} needs restartPolicy: Never; with {} the Job is refused", key, policy));
  }
}

// What a launcher starts is a training unless its name says that it serves.
bool names_training(const Container& container) {
  const Word* script = container.command.script();
  if (script == nullptr) return false;
  if (contains(script->text, "train") || contains(script->text, "finetune")) return true;
  const bool is_launched = container.command.launcher() == Launcher::kTorchrun ||
                           container.command.launcher() == Launcher::kDeepspeed;
  for (const std::string_view part : {"serv", "infer", "api", "app", "web", "demo", "generat"}) {
    if (contains(script->text, part)) return false;
  }
  return is_launched;
}

void never_ends(const Case& at, Report& report) {
  const bool is_service = at.work.kind == WorkloadKind::kDeployment ||
                          at.work.kind == WorkloadKind::kDaemonSet ||
                          at.work.kind == WorkloadKind::kStatefulSet;
  if (!is_service || !at.work.is_training || !names_training(*at.container)) return;
  report.add_at_key(
      "RST009", at.work.object->root, "kind",
      fmt::format("a {} starts the training again when it has ended: it has no notion "
                  "of done",
                  at.work.object->kind));
}

void short_grace(const Case& at, Report& report) {
  constexpr int64_t kShortGraceS = 10;
  const Ref grace = at.pods->spec["terminationGracePeriodSeconds"];
  if (!at.work.is_training || !grace.integer() || *grace.integer() >= kShortGraceS) return;
  report.add("RST010", grace,
             fmt::format("{} s between SIGTERM and SIGKILL are too few to save a checkpoint",
                         *grace.integer()));
}

void liveness(const Case& at, Report& report) {
  if (!at.work.is_training || !runs_to_end(at.work) || !at.container->node["livenessProbe"]) return;
  report.add_at_key("RST011", at.container->node, "livenessProbe",
                    "a rank that is busy for longer than the probe waits is killed, and the job "
                    "with it");
}

void volcano_policies(const Case& at, Report& report) {
  if (at.work.kind != WorkloadKind::kVolcanoJob || !at.work.is_spread() || !at.work.is_training)
    return;
  const auto& tasks = at.work.groups;
  const bool has_policy = at.work.spec()["policies"] ||
                          std::any_of(tasks.begin(), tasks.end(), [](const PodGroup& group) {
                            return static_cast<bool>(group.entry["policies"]);
                          });
  if (has_policy || at.work.gpus() == 0) return;
  report.add_at_key("RST012", at.work.object->root, "kind",
                    "no policy says what follows when a pod fails or is evicted: the others wait "
                    "for it and hold their GPUs");
}

void shell_form(const Dockerfile& file, Report& report) {
  const DockerInstruction* entry = nullptr;
  for (const DockerInstruction* instruction : file.final_instructions()) {
    const bool is_entry =
        instruction->name == "ENTRYPOINT" ||
        (instruction->name == "CMD" && (entry == nullptr || entry->name == "CMD"));
    if (is_entry) entry = instruction;
  }
  if (entry == nullptr || entry->is_exec_form || entry->words.empty()) return;
  const std::string& first = entry->words[0].text;
  const bool trains = entry->mentions("torchrun") || entry->mentions("torch.distributed") ||
                      entry->mentions("train") || entry->mentions("deepspeed") ||
                      entry->mentions("accelerate launch");
  if (first == "exec" || !trains) return;
  Finding& finding = report.add("RST013", report.places().place(entry->offset),
                                fmt::format("{} in the shell's form: SIGTERM ends at the shell and "
                                            "does not reach the training",
                                            entry->name));
  const size_t at = entry->words[0].offset;
  const bool is_simple =
      std::none_of(entry->words.begin(), entry->words.end(), [](const auto& word) {
        return word.text == ";" || word.text == "&&" || word.text == "||" || word.text == "|";
      });
  const bool is_plain = first.find_first_of("=$`") == std::string::npos;
  if (is_simple && is_plain) finding.edits.push_back({at, at, "exec "});
}

constexpr Rule kRules[] = {
    {"RST001", WorkloadRule{no_ttl, Needs::kWholeObject}},
    {"RST002", WorkloadRule{pods_left_running, Needs::kWholeObject}},
    {"RST002", WorkloadRule{servers_never_end, Needs::kWholeObject}},
    {"RST003", WorkloadRule{ray_cluster_left, Needs::kWholeObject}},
    {"RST004", PodRule{exit_code_policy}},
    {"RST005", PodRule{one_pod_restarts, Needs::kWholeObject}},
    {"RST006 RST007", PodRule{missing_policy, Needs::kWholeObject}},
    {"RST006", PodRule{failure_policy}},
    {"RST009", ContainerRule{never_ends}},
    {"RST010", PodRule{short_grace}},
    {"RST011", ContainerRule{liveness}},
    {"RST012", WorkloadRule{volcano_policies, Needs::kWholeObject}},
    {"RST013", DockerfileRule{shell_form}},
};

}  // namespace

extern const std::span<const Rule> kRestartRules = kRules;

}  // namespace shanty::lint
