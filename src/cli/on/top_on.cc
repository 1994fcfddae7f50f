// `shanty top JOB --on kubernetes`: its pods, and what its agents said last.
#include <algorithm>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/cli_app.h"
#include "cli/exit_codes.h"
#include "cli/full_screen.h"
#include "cli/on/on.h"
#include "cli/output.h"
#include "follow/agent_output.h"
#include "follow/log_streams.h"
#include "follow/log_tail.h"
#include "text/table.h"
#include "text/terminal.h"
#include "text/utf8.h"

namespace shanty {
namespace {

constexpr Duration kRefresh = std::chrono::seconds(2);
constexpr uint64_t kTailLines = 400;
constexpr size_t kMaxPods = 64;
constexpr size_t kMaxNews = 5;

// The last words of the agent of node 0.
struct AgentNews {
  std::string progress;
  std::vector<std::string> events;
};

AgentNews read_news(kube::Client& client, const follow::FoundJob& job) {
  AgentNews news;
  const auto pods = follow::pods_to_read(job.pods);
  if (pods.empty()) return news;
  follow::LogTail tail([&](std::string_view text) {
    const follow::OutputLine line = follow::read_output_line(text);
    if (line.from == follow::OutputLine::From::kProgress) news.progress = line.text;
    if (line.from == follow::OutputLine::From::kAgent) news.events.emplace_back(text);
  });
  // What cannot be read is left out of the picture; the next one tries again.
  static_cast<void>(
      client.logs(client.access().k8s_namespace, pods.front().name,
                  {.container = pods.front().trainer()->name, .tail_lines = kTailLines},
                  [&](std::string_view bytes) {
                    tail.feed(bytes);
                    return true;
                  }));
  tail.finish();
  if (news.events.size() > kMaxNews) {
    news.events.erase(news.events.begin(), news.events.end() - kMaxNews);
  }
  return news;
}

std::string what(const follow::PodState& pod) {
  if (pod.is_leaving) return "leaving";
  for (const follow::ContainerState& container : pod.containers) {
    if (container.phase == follow::ContainerState::Phase::kWaiting && !container.reason.empty() &&
        !pod.node.empty()) {
      return container.name + ": " + container.reason;
    }
  }
  if (pod.node.empty()) return pod.no_place_why.empty() ? "no place yet" : pod.no_place_why;
  return pod.phase;
}

std::string picture(const follow::FoundJob& job, const AgentNews& news, size_t width) {
  std::string out = fmt::format("{}  {}  {}\n", job.name,
                                job.workload ? job.workload->kind : "Pods", job.state());
  if (job.place && !job.place->is_admitted) {
    out += fmt::format("number {} of {} in queue {}: {}\n", job.place->position, job.place->waiting,
                       job.place->queue, job.place->why);
  }
  if (!news.progress.empty()) out += news.progress + "\n";
  Table table;
  table.header = {"NODE", "POD", "ON", "GPUS", "RESTARTS", "STATE"};
  table.right_aligned = {true, false, false, true, true, false};
  for (size_t i = 0; i < std::min(job.pods.size(), kMaxPods); ++i) {
    const follow::PodState& pod = job.pods[i];
    const follow::ContainerState* trainer = pod.trainer();
    table.rows.push_back({pod.node_rank < 0 ? "-" : fmt::format("{}", pod.node_rank), pod.name,
                          pod.node.empty() ? "-" : pod.node, fmt::format("{}", pod.gpus),
                          fmt::format("{}", trainer == nullptr ? 0 : trainer->restarts),
                          what(pod)});
  }
  out += "\n" + format_table(table, {.width = width});
  if (job.pods.size() > kMaxPods) out += fmt::format("and {} more\n", job.pods.size() - kMaxPods);
  if (!news.events.empty()) out += "\n";
  for (const std::string& event : news.events) out += printable(event) + "\n";
  return out;
}

}  // namespace

int top_on(const Verb& verb, int argc, char** argv) {
  std::string name;
  follow::ClusterChoice cluster;
  bool once = false;
  const AppPtr app = make_app(verb);
  app->add_option("JOB", name, "the job's name")->required();
  add_cluster_options(*app, cluster, true);
  app->add_flag("--once", once, "one picture, no refresh");
  if (const auto code = parse_arguments(*app, argc, argv)) return *code;
  const auto client = follow::connect(cluster, {});
  if (!client.ok()) return fail_on(verb, client.error());
  auto job = follow::find_job(**client, name);
  if (!job.ok()) return fail_on(verb, job.error());
  const TerminalTraits traits = terminal_traits(STDOUT_FILENO);
  const auto draw = [&] {
    const size_t width = traits.tty ? static_cast<size_t>(terminal_traits(STDOUT_FILENO).width) : 0;
    return picture(*job, read_news(**client, *job), width);
  };
  std::string last = draw();
  if (traits.tty && !once) {
    FullScreen screen;
    do {
      screen.draw(last);
      if (!screen.wait(kRefresh)) break;
      auto again = follow::find_job(**client, name);
      if (!again.ok()) break;
      job = std::move(again);
      last = draw();
    } while (true);
  }
  Output().write(STDOUT_FILENO, last);
  return kExitDone;
}

}  // namespace shanty
