// `shanty run job.yaml --on kubernetes`: renders, applies, follows.
#include <algorithm>
#include <cstdio>
#include <map>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/hash.h"
#include "base/random.h"
#include "check/manifest.h"
#include "cli/cli_app.h"
#include "cli/exit_codes.h"
#include "cli/job_file.h"
#include "cli/on/on.h"
#include "follow/remove.h"
#include "follow/session.h"
#include "follow/start.h"
#include "kube/offer.h"
#include "plan/plan.h"
#include "render/local_code.h"
#include "render/render.h"
#include "text/json_fields.h"

namespace shanty {
namespace {

using follow::Interrupt;
using nlohmann::json;

constexpr size_t kTokenRandomBytes = 32;
constexpr int kSignalExit = 128;

const std::map<std::string, GangChoice> kGangs = {
    {"auto", GangChoice::kAuto},     {"none", GangChoice::kNone},
    {"kueue", GangChoice::kKueue},   {"volcano", GangChoice::kVolcano},
    {"native", GangChoice::kNative}, {"coscheduling", GangChoice::kCoscheduling}};

struct Arguments {
  std::string job;
  follow::ClusterChoice cluster;
  std::string target = "job";
  std::string gang = "auto";
  std::string image;
  std::string shanty_image;
  std::string token_from;
  bool image_volume = false;
  bool dry_run = false;
  bool detach = false;
  bool json = false;
  bool quiet = false;
};

AppPtr make_arguments(const Verb& verb, Arguments& a) {
  AppPtr app = make_app(verb);
  std::vector<std::string> targets;
  for (const std::string_view name : render_target_names()) {
    if (name != "slurm" && name != "dockerfile") targets.emplace_back(name);
  }
  std::vector<std::string> gangs;
  for (const auto& [name, choice] : kGangs) gangs.push_back(name);
  app->add_option("job", a.job, "the job file")->required()->type_name("FILE");
  add_cluster_options(*app, a.cluster, true);
  app->add_option("-t,--target", a.target, "what to run it as (default: job, an indexed Job)")
      ->check(CLI::IsMember(targets));
  app->add_option("--gang", a.gang, "what makes all pods start together (default: what is there)")
      ->check(CLI::IsMember(gangs));
  app->add_option("--image", a.image, "instead of run.image");
  app->add_option("--shanty-image", a.shanty_image, "instead of pod.shanty_image");
  app->add_option("--token-from", a.token_from,
                  "name of a Secret that is there and holds the job's token under the key token");
  app->add_flag("--image-volume", a.image_volume,
                "shanty comes by an image volume, not by an init container (Kubernetes 1.35)");
  app->add_flag("--dry-run", a.dry_run, "the server checks everything and stores nothing");
  app->add_flag("--detach", a.detach, "do not follow the job");
  app->add_flag("--json", a.json, "JSON lines on stdout, nothing else");
  app->add_flag("-q,--quiet", a.quiet, "only the ranks' own output");
  return app;
}

class ClusterRun {
 public:
  ClusterRun(const Verb& verb, Arguments arguments, Job job)
      : verb_(verb), a_(std::move(arguments)), job_(std::move(job)) {}

  int run() {
    const auto client = follow::connect(a_.cluster, interrupt_.token());
    if (!client.ok()) return fail_on(verb_, client.error());
    client_ = client->get();
    job_.schedule.k8s_namespace = client_->access().k8s_namespace;
    const auto found = kube::discover_offer(*client_, job_.schedule.k8s_namespace);
    if (!found.ok()) return fail_on(verb_, found.error());
    const Status rendered = render(found->offer);
    if (!rendered.ok()) {
      fmt::print(stderr, "shanty run: {}\n", rendered.error().message);
      return kExitUsage;
    }
    const auto started = follow::start_job(*client_, objects_, a_.dry_run,
                                           [this](const std::string& text) { say(text); });
    if (!started.ok()) return fail_on(verb_, started.error());
    if (a_.dry_run) return kExitDone;
    if (a_.detach) {
      tell_how_to_find_it(started->name);
      return kExitDone;
    }
    return follow_it(*started);
  }

 private:
  void say(const std::string& text) const {
    if (a_.quiet || a_.json) return;
    fmt::print(stderr, "shanty {}  {}\n", format_local_time_of_day(system_clock().unix_time_ns()),
               text);
  }

  Status render(const KubernetesOffer& offer) {
    LocalCode code = read_local_code(job_, a_.job);
    const RenderOptions options{
        .target = a_.target,
        .gang = kGangs.at(a_.gang),
        .token = a_.token_from.empty() ? hex(secure_random_bytes(kTokenRandomBytes)) : "",
        .token_from = a_.token_from,
        .run_id = hex(secure_random_bytes(4)),
        .image_volume = a_.image_volume,
        .code = std::move(code.files),
        .code_problem = std::move(code.problem)};
    const Rendered rendered = TRY(render_job(job_, make_plan(job_, Cluster{}), offer, options));
    for (const std::string& note : rendered.notes) say(note);
    for (const RenderedObject& object : rendered.objects) {
      for (json& each : TRY(check::parse_manifests(object.text, object.file_name))) {
        objects_.push_back(std::move(each));
      }
    }
    return {};
  }

  int follow_it(const follow::StartedJob& started) {
    const bool bare = started.kind == "Pod";
    const follow::FollowGoal goal{.job = started.name, .pods = job_.nodes.max, .bare_pods = bare};
    follow::WatchGoal watch{
        .job = started.name, .workload_group = "", .workload_kind = "", .queue = false};
    for (const json& object : objects_) {
      const std::string api = json_string(object, "apiVersion");
      if (bare || json_string(object, "kind") != started.kind) continue;
      watch.workload_group = api.substr(0, api.find('/'));
      watch.workload_kind = started.kind;
      watch.queue =
          print_json(object["metadata"]).find("kueue.x-k8s.io/queue-name") != std::string::npos;
    }
    follow::SessionOptions options{.json = a_.json, .quiet = a_.quiet, .replace = {}};
    if (bare) {
      options.replace = [this, &started](const std::string& pod) {
        return make(started.name, pod);
      };
      options.max_replacements = job_.restart.max;
    }
    // The pods of the namespace that the client is in, whatever the context says later.
    follow::ClusterChoice cluster = a_.cluster;
    cluster.k8s_namespace = client_->access().k8s_namespace;
    const auto end = follow::follow_job(cluster, goal, watch, options, interrupt_);
    return conclude(started.name, end);
  }

  // Never to be asked again.
  static kube::ApiError refusal(const std::string& why) { return {{why}, 410, "Gone", why}; }

  // A bare pod anew, unless the job was stopped or removed meanwhile.
  kube::ApiStatus make(const std::string& job, const std::string& pod) {
    const auto ref = TRY(follow::reference(*client_, "", "ConfigMap", follow::config_name(job)));
    const auto config = client_->get(ref);
    if (!config.ok()) {
      return config.error().is_not_found() ? refusal("the job was removed") : config.error();
    }
    const json::json_pointer stopped("/metadata/annotations/" + std::string("shanty.dev~1stopped"));
    if (config->contains(stopped)) return refusal("the job was stopped");
    const auto object = std::ranges::find_if(objects_, [&](const json& each) {
      return json_string(each, "kind") == "Pod" && json_string(each["metadata"], "name") == pod;
    });
    if (object == objects_.end()) return refusal("pod " + pod + " is none of this job's");
    TRY(client_->apply(*object));
    return {};
  }

  int conclude(const std::string& job, const follow::SessionEnd& end) const {
    if (end.job) {
      say(end.job->text);
      if (!end.run_dir.empty()) {
        say(end.run_dir_stays
                ? fmt::format("its run directory is {} on claim {}, and stays there", end.run_dir,
                              job_.checkpoint.claim)
                : "its run directory went with its pods: a checkpoint claim keeps it");
      }
      say(command_for("rm", job, a_.cluster, client_->access().k8s_namespace) +
          " removes its objects");
      return end.job->exit_code;
    }
    if (!end.problem.empty()) {
      fmt::print(stderr, "shanty run: {}; the job itself goes on\n", end.problem);
      tell_how_to_find_it(job);
      return kExitEnvironment;
    }
    tell_how_to_find_it(job);
    return kSignalExit + interrupt_.signal();
  }

  void tell_how_to_find_it(const std::string& job) const {
    if (a_.json) return;
    const std::string& where = client_->access().k8s_namespace;
    fmt::print(stderr,
               "shanty: job {} goes on in namespace {}; from any machine with this kubeconfig:\n",
               job, where);
    for (const char* verb : {"top", "logs -f", "stop", "rm"}) {
      fmt::print(stderr, "  {}\n", command_for(verb, job, a_.cluster, where));
    }
  }

  // First: threads that are made later leave the signals to it.
  Interrupt interrupt_;
  const Verb& verb_;
  const Arguments a_;
  Job job_;
  kube::Client* client_ = nullptr;
  std::vector<json> objects_;
};

}  // namespace

int run_on(const Verb& verb, int argc, char** argv) {
  Arguments a;
  const AppPtr app = make_arguments(verb, a);
  if (const auto code = parse_arguments(*app, argc, argv)) return *code;
  auto job = load_job_or_report(a.job);
  if (!job) return kExitUsage;
  if (!a.image.empty()) job->run.image = a.image;
  if (!a.shanty_image.empty()) job->pod.shanty_image = a.shanty_image;
  if (a.cluster.k8s_namespace.empty()) a.cluster.k8s_namespace = job->schedule.k8s_namespace;
  return ClusterRun(verb, std::move(a), std::move(*job)).run();
}

}  // namespace shanty
