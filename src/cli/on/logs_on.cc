// `shanty logs JOB --on kubernetes`: what the ranks of a job printed, from its pods.
#include <algorithm>
#include <map>
#include <memory>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <re2/re2.h>

#include "cli/cli_app.h"
#include "cli/exit_codes.h"
#include "cli/on/on.h"
#include "cli/output.h"
#include "cli/rank_list.h"
#include "follow/agent_output.h"
#include "follow/log_streams.h"
#include "follow/log_tail.h"
#include "follow/session.h"
#include "text/utf8.h"

namespace shanty {
namespace {

struct Arguments {
  std::string job;
  follow::ClusterChoice cluster;
  std::vector<std::string> ranks;
  std::string grep;
  uint64_t tail = 0;
  bool follow = false;
  bool previous = false;
};

// Which lines are asked for.
class LineChoice {
 public:
  // Errors: no rank list, no expression.
  static Result<LineChoice> make(const Arguments& a) {
    LineChoice out;
    for (const std::string& text : a.ranks) {
      const std::vector<int> some = TRY(parse_rank_list(text).context("--rank"));
      out.ranks_.insert(out.ranks_.end(), some.begin(), some.end());
    }
    if (a.grep.empty()) return out;
    out.expression_ = std::make_unique<RE2>(a.grep, RE2::Quiet);
    if (!out.expression_->ok()) return Error{"--grep: " + out.expression_->error()};
    return out;
  }

  // `line` of the log that is called `log`; lines of one log come in their order. A line that names
  // no rank goes on the one before it; before any, it is of a job of one rank.
  bool wants(const std::string& log, std::string_view line) {
    if (!ranks_.empty() && !is_of_ranks(log, line)) return false;
    return expression_ == nullptr ||
           RE2::PartialMatch(re2::StringPiece(line.data(), line.size()), *expression_);
  }
  bool names_ranks() const { return !ranks_.empty(); }
  bool saw_any() const { return saw_any_; }

 private:
  bool is_of_ranks(const std::string& log, std::string_view line) {
    using From = follow::OutputLine::From;
    if (follow::read_output_line(line).from != From::kRank) return false;
    const auto [last, is_new] = last_.emplace(log, std::ranges::find(ranks_, 0) != ranks_.end());
    const std::vector<int> of = follow::ranks_of_line(line);
    if (!of.empty()) {
      last->second = std::ranges::find_first_of(of, ranks_) != of.end();
    }
    saw_any_ = saw_any_ || last->second;
    return last->second;
  }

  std::vector<int> ranks_;
  std::unique_ptr<RE2> expression_;
  std::map<std::string, bool> last_;  // by log: the line before was wanted
  bool saw_any_ = false;
};

int follow_logs(const Verb& verb, const Arguments& a, LineChoice& choice,
                const follow::FoundJob& job, const follow::Interrupt& interrupt) {
  follow::WatchGoal watch{
      .job = job.name, .workload_group = "", .workload_kind = "", .queue = false};
  if (job.workload) {
    watch.workload_group = job.workload->group;
    watch.workload_kind = job.workload->kind;
  }
  const follow::SessionOptions options{
      .quiet = true,
      .keep = [&](const std::string& pod,
                  std::string_view line) { return choice.wants(pod, line); },
      .tail_lines = a.tail,
      .replace = {}};
  const auto end = follow::follow_job(
      a.cluster, {.job = job.name, .pods = job.nodes(), .bare_pods = !job.workload}, watch, options,
      interrupt);
  return end.problem.empty() ? kExitDone : fail_on(verb, Error{end.problem});
}

int print_logs(const Verb& verb, const Arguments& a, LineChoice& choice, kube::Client& client,
               const follow::FoundJob& job) {
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
      using From = follow::OutputLine::From;
      const follow::OutputLine read = follow::read_output_line(line);
      if (read.from == From::kRanks) return;
      if (read.from == From::kRay) {
        if (!read.text.empty() && !choice.names_ranks())
          fmt::print(stderr, "Ray in pod {}: {}\n", pod.name, printable(read.text));
        return;
      }
      if (choice.wants(pod.name, line)) output.write(STDOUT_FILENO, std::string(line) + "\n");
    });
    const auto read =
        client.logs(client.access().k8s_namespace, pod.name, options, [&](std::string_view bytes) {
          tail.feed(bytes);
          return !output.reader_gone();
        });
    tail.finish();
    if (!read.ok()) return fail_on(verb, read.error());
  }
  if (choice.names_ranks() && !choice.saw_any()) {
    fmt::print(stderr,
               "shanty {}: these ranks have printed nothing that the pods' logs still hold\n",
               verb.name);
  }
  return kExitDone;
}

}  // namespace

int logs_on(const Verb& verb, int argc, char** argv) {
  Arguments a;
  const AppPtr app = make_app(verb);
  app->add_option("JOB", a.job, "the job's name")->required();
  add_cluster_options(*app, a.cluster, true);
  app->add_option("--rank", a.ranks, "only these ranks, as in 0,3-5")->allow_extra_args(false);
  app->add_flag("-f,--follow", a.follow, "go on until the job ends");
  app->add_flag("--previous", a.previous, "of the containers before their last restart");
  app->add_option("--grep", a.grep, "only lines in which this RE2 expression matches");
  app->add_option("--tail", a.tail, "start with the last so many lines of each pod");
  if (const auto code = parse_arguments(*app, argc, argv)) return *code;
  auto choice = LineChoice::make(a);
  if (!choice) {
    fmt::print(stderr, "shanty {}: {}\n", verb.name, choice.error().message);
    return kExitUsage;
  }
  const follow::Interrupt interrupt;
  const auto client = follow::connect(a.cluster, interrupt.token());
  if (!client.ok()) return fail_on(verb, client.error());
  const auto job = follow::find_job(**client, a.job);
  if (!job.ok()) return fail_on(verb, job.error());
  return a.follow ? follow_logs(verb, a, *choice, *job, interrupt)
                  : print_logs(verb, a, *choice, **client, *job);
}

}  // namespace shanty
