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

int run_rm(int argc, char** argv);

}  // namespace

extern const Verb kRmVerb = {
    .name = "rm",
    .summary = "end a job on a cluster and remove all its objects but its claims",
    .examples =
        "  shanty rm train --on kubernetes            in the current context and its namespace\n"
        "  shanty rm train --on kubernetes:lab -n ml",
    .hidden = false,
    .run = run_rm};

namespace {

int run_rm(int argc, char** argv) {
  std::string name;
  follow::ClusterChoice cluster;
  const AppPtr app = make_app(kRmVerb);
  app->add_option("JOB", name, "the job's name")->required();
  add_cluster_options(*app, cluster, true);
  if (const auto code = parse_arguments(*app, argc, argv)) return *code;
  const follow::Interrupt interrupt;
  const auto client = follow::connect(cluster, interrupt.token());
  if (!client.ok()) return fail_on(kRmVerb, client.error());
  const auto job = follow::find_job_or_rest(**client, name);
  if (!job.ok()) return fail_on(kRmVerb, job.error());
  const auto removed = follow::remove_job(
      **client, *job, [](const std::string& text) { fmt::print(stderr, "{}\n", text); });
  if (!removed.ok()) return fail_on(kRmVerb, removed.error());
  fmt::print(stderr, "job {} is removed\n", name);
  return kExitDone;
}

}  // namespace
}  // namespace shanty
