// `shanty logs JOB --on kubernetes`: what the ranks of a job printed, from its pods.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <re2/re2.h>

#include "cli/cli_app.h"
#include "cli/exit_codes.h"
#include "cli/on/on.h"
#include "cli/output.h"
#include "follow/log_streams.h"
#include "follow/log_tail.h"
#include "follow/session.h"

namespace shanty {
namespace {

struct Arguments {
  std::string job;
  follow::ClusterChoice cluster;
  std::string grep;
  uint64_t tail = 0;
  bool follow = false;
  bool previous = false;
};

int follow_logs(const Verb& verb, const Arguments& a, const follow::FoundJob& job,
                const follow::Interrupt& interrupt) {
  follow::WatchGoal watch{
      .job = job.name, .workload_group = "", .workload_kind = "", .queue = false};
  if (job.workload) {
    watch.workload_group = job.workload->group;
    watch.workload_kind = job.workload->kind;
  }
  const auto end = follow::follow_job(
      a.cluster, {.job = job.name, .pods = job.pods.size(), .bare_pods = !job.workload}, watch,
      {.quiet = true, .replace = {}}, interrupt);
  return end.problem.empty() ? kExitDone : fail_on(verb, Error{end.problem});
}

int print_logs(const Verb& verb, const Arguments& a, kube::Client& client,
               const follow::FoundJob& job) {
  const RE2 expression(a.grep, RE2::Quiet);
  if (!expression.ok()) {
    fmt::print(stderr, "shanty {}: --grep: {}\n", verb.name, expression.error());
    return kExitUsage;
  }
  const std::vector<follow::PodState> pods = follow::pods_to_read(job.pods);
  if (pods.empty()) {
    fmt::print(stderr, "shanty {}: no pod of job {} has printed anything yet: it is {}\n",
               verb.name, job.name, job.state());
    return kExitDone;
  }
  Output output;
  for (const follow::PodState& pod : pods) {
    kube::LogOptions options{.container = pod.trainer()->name, .previous = a.previous};
    if (a.tail > 0) options.tail_lines = a.tail;
    follow::LogTail tail([&](std::string_view line) {
      if (a.grep.empty() ||
          RE2::PartialMatch(re2::StringPiece(line.data(), line.size()), expression)) {
        output.write(STDOUT_FILENO, std::string(line) + "\n");
      }
    });
    const auto read =
        client.logs(client.access().k8s_namespace, pod.name, options, [&](std::string_view bytes) {
          tail.feed(bytes);
          return !output.reader_gone();
        });
    tail.finish();
    if (!read.ok()) return fail_on(verb, read.error());
  }
  return kExitDone;
}

}  // namespace

int logs_on(const Verb& verb, int argc, char** argv) {
  Arguments a;
  const AppPtr app = make_app(verb);
  app->add_option("JOB", a.job, "the job's name")->required();
  add_cluster_options(*app, a.cluster, true);
  app->add_flag("-f,--follow", a.follow, "go on until the job ends");
  app->add_flag("--previous", a.previous, "of the containers before their last restart");
  app->add_option("--grep", a.grep, "only lines in which this RE2 expression matches");
  app->add_option("--tail", a.tail, "start with the last so many lines of each pod");
  if (const auto code = parse_arguments(*app, argc, argv)) return *code;
  const follow::Interrupt interrupt;
  const auto client = follow::connect(a.cluster, interrupt.token());
  if (!client.ok()) return fail_on(verb, client.error());
  const auto job = follow::find_job(**client, a.job);
  if (!job.ok()) return fail_on(verb, job.error());
  return a.follow ? follow_logs(verb, a, *job, interrupt) : print_logs(verb, a, **client, *job);
}

}  // namespace shanty
