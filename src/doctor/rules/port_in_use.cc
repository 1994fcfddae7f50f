#include <map>
#include <set>

#include <fmt/format.h>

#include "doctor/rule.h"

namespace shanty {
namespace {

constexpr uint64_t kLinesOfOneError = 6;  // that some print in several

}  // namespace

void port_in_use_rule(const Case& of, Hypotheses& out) {
  const Records lines = of.all("bind_failed");
  Records ports;  // the scheduler found the host's port taken
  for (const Record* record : of.all("sched_failed")) {
    if (record->text.find("free ports") != std::string::npos) ports.push_back(record);
  }
  if (!lines.empty()) {
    Draft draft(of, "RDZV102", "port_in_use", 0.94);
    draft.show(lines).blame(lines);
    std::string port;
    for (const Record* record : lines) {
      if (port.empty()) port = record->get("port");
      for (const Record* detail : of.all("bind_detail")) {
        const bool near = detail->file == record->file && detail->line < record->line &&
                          record->line - detail->line <= kLinesOfOneError;
        if (port.empty() && near) port = detail->get("port");
      }
    }
    const Record* wanted = of.first("env_line");
    draft.message(fmt::format("{} of {} is taken already",
                              port.empty() ? "the port" : "port " + port,
                              of.place(*lines.front())));
    if (wanted && !wanted->get("port").empty() && !port.empty() && wanted->get("port") != port) {
      draft.show(wanted).rule_out(fmt::format(
          "MASTER_PORT: it is {}, so a library opens {} of its own", wanted->get("port"), port));
    }
    draft.rule_out("nobody hosting the store: here somebody does, on the same port");
    draft.fix(fmt::format("see who listens: ss -ltnp | grep {}", port.empty() ? "PORT" : port));
    draft.fix(
        "another MASTER_PORT for each job of a node (23456 and up), or --rdzv-endpoint=host:0 "
        "on one node");
    out.push_back(draft.done());
  }
  // Two jobs at one store.
  std::set<std::string> jobs;
  std::set<std::string> endpoints;
  for (const Record* record : of.all("launch_run_id"))
    jobs.insert(std::string(record->get("value")));
  for (const Record* record : of.all("launch_endpoint")) {
    endpoints.insert(std::string(record->get("value")));
  }
  if (jobs.size() > 1 && endpoints.size() == 1 && !of.trained() && lines.empty()) {
    Draft draft(of, "RDZV102", "port_in_use", 0.7, Nearness::kStructure);
    draft.show(of.all({"launch_run_id", "launch_endpoint"})).blame(of.all("launch_run_id"));
    draft.message(fmt::format("{} jobs share the store at {}", jobs.size(), *endpoints.begin()));
    draft.fix("another port for each job");
    out.push_back(draft.done());
  }
  if (!ports.empty()) {
    Draft draft(of, "RDZV102", "port_in_use", 0.93);
    draft.show(ports).blame(ports);
    draft.message(
        "a pod waits because its host port is taken on the nodes: another pod with "
        "hostNetwork uses the same one");
    draft.rule_out("no GPUs: the scheduler names the port");
    draft.fix("another port for this job; with hostNetwork only one such pod fits a node");
    out.push_back(draft.done());
  }
}

}  // namespace shanty
