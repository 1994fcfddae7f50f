// `shanty top JOB --on kubernetes`: its pods, its ranks, and what its agents said last.
#include <algorithm>
#include <limits>
#include <optional>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/clock.h"
#include "base/units.h"
#include "cli/cli_app.h"
#include "cli/exit_codes.h"
#include "cli/full_screen.h"
#include "cli/on/on.h"
#include "cli/output.h"
#include "cli/top_view.h"
#include "follow/agent_output.h"
#include "follow/log_streams.h"
#include "follow/log_tail.h"
#include "telemetry/live_line.h"
#include "text/table.h"
#include "text/terminal.h"
#include "text/utf8.h"

namespace shanty {
namespace {

constexpr Duration kRefresh = std::chrono::seconds(2);
constexpr uint64_t kTailLines = 400;
constexpr size_t kMaxPods = 64;
constexpr size_t kMaxLogs = 16;  // read in search of node 0
constexpr size_t kMaxNews = 5;
// Ranks may print more than kTailLines between two lines about ranks.
constexpr uint64_t kLongTailS = 2 * kLongestLiveLineWait / std::chrono::seconds(1);
constexpr size_t kMaxLongTailBytes = size_t{16} << 20;

// The last words of the agent of node 0.
struct AgentNews {
  std::string progress;
  std::vector<std::string> events;
  std::optional<LiveState> live;
};

// Reads a part of the log of node 0's pod; what cannot be read is left out of the picture, the next
// one tries again.
AgentNews read_log(kube::Client& client, const follow::PodState& pod,
                   const kube::LogOptions& options, size_t max_bytes) {
  using From = follow::OutputLine::From;
  AgentNews news;
  size_t bytes_read = 0;
  follow::LogTail tail([&](std::string_view text) {
    const follow::OutputLine line = follow::read_output_line(text);
    if (line.from == From::kProgress) news.progress = line.text;
    if (line.from == From::kAgent) news.events.emplace_back(text);
    if (line.from != From::kRanks) return;
    if (auto live = decode_live_line(line.text); live.ok()) news.live = std::move(*live);
  });
  static_cast<void>(
      client.logs(client.access().k8s_namespace, pod.name, options, [&](std::string_view bytes) {
        tail.feed(bytes);
        bytes_read += bytes.size();
        return bytes_read < max_bytes;
      }));
  tail.finish();
  return news;
}

AgentNews read_news_of(kube::Client& client, const follow::PodState& pod) {
  kube::LogOptions options{.container = pod.trainer()->name, .tail_lines = kTailLines};
  AgentNews news = read_log(client, pod, options, kMaxLongTailBytes);
  if (!news.live && !pod.has_ended()) {
    options.tail_lines.reset();
    options.since_s = kLongTailS;
    news.live = read_log(client, pod, options, kMaxLongTailBytes).live;
  }
  if (news.events.size() > kMaxNews) {
    news.events.erase(news.events.begin(), news.events.end() - kMaxNews);
  }
  return news;
}

AgentNews read_news(kube::Client& client, const follow::FoundJob& job) {
  const auto pods = follow::pods_to_read(job.pods);
  AgentNews first;
  for (size_t i = 0; i < std::min(pods.size(), kMaxLogs); ++i) {
    AgentNews news = read_news_of(client, pods[i]);
    // Where no pod says that it is node 0, its log is the one with the ranks.
    if (news.live || pods[i].node_rank >= 0) return news;
    if (i == 0) first = std::move(news);
  }
  return first;
}

// As `top` shows them on a laptop, at the moment of which the agents speak.
std::string ranks_picture(const follow::FoundJob& job, const LiveState& live, size_t width,
                          bool colour) {
  const RunSummary run{.run_id = "",
                       .job_name = job.name,
                       .directory = "",
                       .state = live.state,
                       .text = live.text,
                       .started_unix_ns = live.started_unix_ns,
                       .generation = live.generation,
                       .world_size = live.world_size};
  LiveState shown = live;
  const bool is_part = live.ranks.size() < static_cast<size_t>(std::max(live.world_size, 0));
  if (is_part) {
    // Their sum would pass for the job's.
    for (RankTelemetry& rank : shown.ranks) {
      rank.samples_per_s = std::numeric_limits<double>::quiet_NaN();
    }
  }
  const TopOptions options{.width = width == 0 ? std::string::npos : width, .colour = colour};
  std::string out = "\n" + render_top(run, shown, live.unix_ns, options);
  const double age_s = ns_to_seconds(system_clock().unix_time_ns() - live.unix_ns);
  out += fmt::format("{}as node 0 said it {} ago\n",
                     is_part ? fmt::format("the {} of {} ranks that hold the job up, ",
                                           live.ranks.size(), live.world_size)
                             : "",
                     format_duration(std::max(0.0, age_s)));
  return out;
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

std::string picture(const follow::FoundJob& job, const AgentNews& news, size_t width, bool colour) {
  std::string out = fmt::format("{}  {}  {}\n", job.name,
                                job.workload ? job.workload->kind : "Pods", job.state());
  if (job.place && !job.place->is_admitted) {
    out += fmt::format("number {} of {} in queue {}: {}\n", job.place->position, job.place->waiting,
                       job.place->queue, job.place->why);
  }
  if (!news.progress.empty() && !news.live) out += news.progress + "\n";
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
  if (news.live) out += ranks_picture(job, *news.live, width, colour);
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
    return picture(*job, read_news(**client, *job), width, traits.colour);
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
