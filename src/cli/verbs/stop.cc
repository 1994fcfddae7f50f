#include <cstdio>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/cli_app.h"
#include "cli/exit_codes.h"
#include "cli/on/on.h"
#include "follow/interrupt.h"
#include "follow/remove.h"

namespace shanty {
namespace {

int run_stop(int argc, char** argv);

}  // namespace

extern const Verb kStopVerb = {
    .name = "stop",
    .summary = "end the pods of a job on a cluster, gently, and keep its objects",
    .examples =
        "  shanty stop train --on kubernetes          in the current context and its namespace\n"
        "  shanty stop train --on kubernetes:lab -n ml",
    .hidden = false,
    .run = run_stop};

namespace {

int run_stop(int argc, char** argv) {
  std::string name;
  follow::ClusterChoice cluster;
  const AppPtr app = make_app(kStopVerb);
  app->add_option("JOB", name, "the job's name")->required();
  add_cluster_options(*app, cluster, true);
  if (const auto code = parse_arguments(*app, argc, argv)) return *code;
  const follow::Interrupt interrupt;
  const auto client = follow::connect(cluster, interrupt.token());
  if (!client.ok()) return fail_on(kStopVerb, client.error());
  const auto job = follow::find_job(**client, name);
  if (!job.ok()) return fail_on(kStopVerb, job.error());
  const auto stopped = follow::stop_job(
      **client, *job, [](const std::string& text) { fmt::print(stderr, "{}\n", text); });
  if (!stopped.ok()) return fail_on(kStopVerb, stopped.error());
  fmt::print(stderr, "job {} is stopped; {} removes it\n", name,
             command_for("rm", name, cluster, (*client)->access().k8s_namespace));
  return kExitDone;
}

}  // namespace
}  // namespace shanty
