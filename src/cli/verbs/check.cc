#include "check/check.h"

#include <cstdio>
#include <string>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "check/manifest.h"
#include "check/own_objects.h"
#include "check/pending.h"
#include "check/read_snapshot.h"
#include "cli/cli_app.h"
#include "cli/exit_codes.h"
#include "cli/job_file.h"
#include "kube/offer.h"
#include "os/files.h"
#include "os/process.h"
#include "plan/plan.h"
#include "text/json_fields.h"
#include "text/terminal.h"

namespace shanty {
namespace {

int run_check(int argc, char** argv);

}  // namespace

extern const Verb kCheckVerb = {
    .name = "check",
    .summary = "ask a cluster whether a job fits, and why one waits",
    .examples =
        "  shanty check cluster job.yaml            does it fit now? what is the smallest change?\n"
        "  shanty check cluster manifest.yaml --json\n"
        "  shanty check pending llm -n ml           why does it stay Pending?",
    .hidden = false,
    .run = run_check};

namespace {

constexpr size_t kMaxFileBytes = size_t{16} << 20;

struct CheckArguments {
  std::string file;
  std::string target = "job";
  std::string name;
  kube::AccessOptions access;
  bool json = false;
};

int environment_error(const std::string& message) {
  fmt::print(stderr, "shanty: {}\n", message);
  return kExitEnvironment;
}

int show(const check::CheckReport& report, bool json) {
  const TerminalTraits terminal = terminal_traits(STDOUT_FILENO);
  const size_t width = terminal.tty ? static_cast<size_t>(terminal.width) : 0;
  fmt::print(
      "{}", json ? check::report_json(report) : check::report_text(report, terminal.colour, width));
  return report.has_problems() ? kExitProblems : kExitDone;
}

Result<std::unique_ptr<kube::Client>> connect(const kube::AccessOptions& options) {
  return kube::Client::create(TRY(kube::find_access(options)));
}

// What the file asks for, and the objects to try.
struct Asked {
  check::Workload workload;
  std::vector<nlohmann::json> objects;
  std::vector<std::string> problems;  // what could not be seen of it
};

// Where the objects lie that do not say it.
std::string namespace_of(const std::vector<nlohmann::json>& objects, const std::string& fallback) {
  for (const nlohmann::json& object : objects) {
    const nlohmann::json* metadata = json_object(object, "metadata");
    const bool makes_runs = json_string(object, "kind") == "TrainJob";
    if (metadata != nullptr && makes_runs) return json_string(*metadata, "namespace", fallback);
  }
  return fallback;
}

Result<Asked> read_manifests(const std::string& text, const std::string& path, kube::Client& client,
                             const std::string& k8s_namespace) {
  Asked asked;
  asked.objects = TRY(check::parse_manifests(text, path));
  std::vector<nlohmann::json> known = asked.objects;
  for (nlohmann::json& runtime : check::read_runtimes(
           client, asked.objects, namespace_of(asked.objects, k8s_namespace), asked.problems)) {
    known.push_back(std::move(runtime));
  }
  asked.workload = TRY(check::workload_of(known, k8s_namespace).context(path));
  return asked;
}

// A job is judged by the objects that `render` makes of it here; without them by its plan.
Asked read_job(Job job, const CheckArguments& arguments, kube::Client& client,
               const std::string& k8s_namespace) {
  Asked asked;
  if (!arguments.access.k8s_namespace.empty() || job.schedule.k8s_namespace.empty()) {
    job.schedule.k8s_namespace = k8s_namespace;
  }
  const auto found = kube::discover_offer(client, job.schedule.k8s_namespace);
  const KubernetesOffer offer = found.ok() ? found->offer : newest_kubernetes_offer();
  const bool names_image = !job.run.image.empty();
  if (!names_image) job.run.image = "unnamed";  // what it asks for does not depend on it
  auto objects = check::render_objects(job, arguments.file, offer, arguments.target);
  auto workload = objects.ok() ? check::workload_of(*objects, job.schedule.k8s_namespace)
                               : Result<check::Workload>(objects.error());
  if (workload.ok()) {
    if (names_image) {
      asked.objects = std::move(*objects);
    } else {
      asked.problems.emplace_back(
          "the job names no run.image, so the server was not asked about its objects");
    }
    asked.workload = std::move(*workload);
    asked.workload.name = job.name;
    // The job was rendered without the queue that it names, which is worth a finding.
    if (asked.workload.volcano_queue.empty()) asked.workload.kueue_queue = job.schedule.queue;
    if (job.nodes.min < job.nodes.max) asked.workload.request.min_pods = job.nodes.min;
    return asked;
  }
  asked.problems.push_back(
      "the objects of the job cannot be rendered, so the server was not asked about them: " +
      workload.error().message);
  asked.workload = check::workload_of(job, make_plan(job, Cluster{}), k8s_namespace);
  return asked;
}

int usage_error(const std::string& message) {
  fmt::print(stderr, "shanty: {}\n", message);
  return kExitUsage;
}

int check_cluster(const CheckArguments& arguments) {
  const auto text = read_file(arguments.file, kMaxFileBytes);
  if (!text.ok()) return usage_error(text.error().message);
  const bool manifest = check::is_manifest(*text);
  const auto job = manifest ? std::nullopt : load_job_or_report(arguments.file);
  if (!manifest && !job) return kExitUsage;
  const auto client = connect(arguments.access);
  if (!client.ok()) return environment_error(client.error().message);
  const std::string& k8s_namespace = (*client)->access().k8s_namespace;
  Result<Asked> asked = manifest ? read_manifests(*text, arguments.file, **client, k8s_namespace)
                                 : read_job(*job, arguments, **client, k8s_namespace);
  if (!asked.ok()) return usage_error(asked.error().message);
  if (!arguments.access.k8s_namespace.empty()) {
    asked->workload.k8s_namespace = arguments.access.k8s_namespace;
  }
  auto snapshot = check::read_snapshot(**client, asked->workload.k8s_namespace);
  if (!snapshot.ok()) return environment_error(snapshot.error().message);
  snapshot->unread.insert(snapshot->unread.end(), asked->problems.begin(), asked->problems.end());
  check::add_own_objects(asked->objects, *snapshot);
  check::try_objects(**client, asked->objects, *snapshot);
  return show(check::evaluate(*snapshot, std::move(asked->workload)), arguments.json);
}

int check_pending(const CheckArguments& arguments) {
  const auto client = connect(arguments.access);
  if (!client.ok()) return environment_error(client.error().message);
  const std::string k8s_namespace = (*client)->access().k8s_namespace;
  const auto waiting = check::find_waiting(**client, k8s_namespace, arguments.name);
  if (!waiting.ok()) return environment_error(waiting.error().message);
  const auto snapshot = check::read_snapshot(**client, k8s_namespace);
  if (!snapshot.ok()) return environment_error(snapshot.error().message);
  return show(check::evaluate_pending(
                  *snapshot, check::waiting_workload(*waiting, arguments.name, k8s_namespace),
                  check::waiting_findings(*waiting)),
              arguments.json);
}

void add_common(CLI::App& app, CheckArguments& arguments) {
  app.add_option("--context", arguments.access.context, "context of the kubeconfig")
      ->type_name("NAME");
  app.add_option("-n,--namespace", arguments.access.k8s_namespace, "instead of the context's")
      ->type_name("NAME");
  app.add_option("--kubeconfig", arguments.access.kubeconfig, "instead of KUBECONFIG")
      ->type_name("FILE");
  app.add_flag("--json", arguments.json, "print JSON");
}

int run_check(int argc, char** argv) {
  CheckArguments arguments;
  arguments.access.env = current_environment();
  const AppPtr app = make_app(kCheckVerb);
  app->require_subcommand(1);
  CLI::App* cluster = app->add_subcommand("cluster", "whether a job fits into the cluster now");
  cluster->add_option("file", arguments.file, "a job file, or manifests")
      ->required()
      ->type_name("FILE");
  cluster->add_option("-t,--target", arguments.target, "as what the job would run (default: job)")
      ->type_name("TARGET");
  add_common(*cluster, arguments);
  CLI::App* pending = app->add_subcommand("pending", "why a job, PodGroup or pod does not start");
  pending->add_option("name", arguments.name, "its name")->required()->type_name("NAME");
  add_common(*pending, arguments);
  if (const auto code = parse_arguments(*app, argc, argv)) return *code;
  return cluster->parsed() ? check_cluster(arguments) : check_pending(arguments);
}

}  // namespace
}  // namespace shanty
