// `shanty ps --on kubernetes`: the jobs of a namespace, found by their labels.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/units.h"
#include "cli/cli_app.h"
#include "cli/exit_codes.h"
#include "cli/on/on.h"
#include "cli/output.h"
#include "text/json_fields.h"
#include "text/table.h"

namespace shanty {
namespace {

std::string kind_of(const follow::FoundJob& job) {
  return job.workload ? job.workload->kind : "Pods";
}

std::string age_of(const follow::FoundJob& job) {
  const double now_s = ns_to_seconds(system_clock().unix_time_ns());
  const double age_s = now_s - static_cast<double>(job.created_unix_s());
  return job.created_unix_s() == 0 ? "-" : format_duration(std::max(age_s, 0.0));
}

std::string why_of(const follow::FoundJob& job) {
  if (job.place && !job.place->is_admitted) {
    return fmt::format("{} of {} in {}{}", job.place->position, job.place->waiting,
                       job.place->queue, job.place->why.empty() ? "" : ": " + job.place->why);
  }
  if (job.workload && job.state() == "failed") return job.workload->message;
  for (const follow::PodState& pod : job.pods) {
    if (!pod.no_place_why.empty() && pod.node.empty()) return pod.no_place_why;
  }
  return "";
}

std::string table_of(const std::vector<follow::FoundJob>& jobs) {
  Table table;
  table.header = {"JOB", "KIND", "STATE", "RUNNING", "AGE", "WHY"};
  table.right_aligned = {false, false, false, true, true, false};
  for (const follow::FoundJob& job : jobs) {
    table.rows.push_back({job.name, kind_of(job), job.state(),
                          fmt::format("{}/{}", job.running(), job.nodes()), age_of(job),
                          why_of(job)});
  }
  return format_table(table);
}

std::string json_of(const std::vector<follow::FoundJob>& jobs) {
  nlohmann::json out = nlohmann::json::array();
  for (const follow::FoundJob& job : jobs) {
    nlohmann::json one = {{"job", job.name},
                          {"namespace", job.k8s_namespace},
                          {"kind", kind_of(job)},
                          {"state", job.state()},
                          {"running", job.running()},
                          {"why", why_of(job)},
                          {"pods", nlohmann::json::array()}};
    for (const follow::PodState& pod : job.pods) {
      one["pods"].push_back({{"name", pod.name},
                             {"node", pod.node},
                             {"phase", pod.phase},
                             {"node_rank", pod.node_rank},
                             {"run_dir", pod.run_dir}});
    }
    if (job.created_unix_s() > 0) one["created_unix_s"] = job.created_unix_s();
    out.push_back(std::move(one));
  }
  return print_json_pretty(out);
}

}  // namespace

int ps_on(const Verb& verb, int argc, char** argv) {
  follow::ClusterChoice cluster;
  bool json = false;
  const AppPtr app = make_app(verb);
  add_cluster_options(*app, cluster, true);
  app->add_flag("--json", json, "a JSON array with everything known of each job");
  if (const auto code = parse_arguments(*app, argc, argv)) return *code;
  const auto client = follow::connect(cluster, {});
  if (!client.ok()) return fail_on(verb, client.error());
  const auto jobs = follow::find_jobs(**client);
  if (!jobs.ok()) return fail_on(verb, jobs.error());
  Output output;
  if (json) {
    output.write(STDOUT_FILENO, json_of(*jobs));
  } else if (jobs->empty()) {
    output.write(STDERR_FILENO, fmt::format("there are no jobs of shanty in namespace {}\n",
                                            (*client)->access().k8s_namespace));
  } else {
    output.write(STDOUT_FILENO, table_of(*jobs));
  }
  return kExitDone;
}

}  // namespace shanty
