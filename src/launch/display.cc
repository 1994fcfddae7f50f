#include "launch/display.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "os/files.h"
#include "run/events.h"
#include "run/log_view.h"
#include "telemetry/live.h"
#include "telemetry/live_line.h"
#include "text/progress.h"
#include "text/terminal.h"

namespace shanty {
namespace {

constexpr std::chrono::milliseconds kPollEvery{50};
constexpr Duration kLiveEvery = std::chrono::milliseconds(500);

// A failing write (a closed pipe) is not the job's problem.
void put(int fd, std::string_view bytes) { discard(write_all(fd, bytes), "nobody reads it"); }

std::vector<int> shown_ranks(const RunConfig& config) {
  std::vector<int> ranks;
  for (const int local : config.shown_local_ranks) {
    for (int node = 0; node < config.nodes; ++node) ranks.push_back(node * config.slots + local);
  }
  return ranks;
}

bool worth_a_line(const Event& event) {
  static constexpr std::string_view kQuiet[] = {
      event_kind::kJobStarted,     event_kind::kAgentJoined,  event_kind::kAgentLeft,
      event_kind::kWorkersStarted, event_kind::kWorkerExited, event_kind::kCheckpointSaved,
      event_kind::kFirstStep,      event_kind::kEnded,        event_kind::kWorkerFailed};
  if (event.kind == event_kind::kStopping && event.source != "coordinator") return false;
  return std::find(std::begin(kQuiet), std::end(kQuiet), event.kind) == std::end(kQuiet);
}

Progress to_progress(const LiveState& live) {
  const JobProgress job = summarize(live.ranks);
  return {.state = live.state,
          .text = live.text,
          .has_step = job.has_step,
          .step = job.step,
          .total_steps = job.total_steps,
          .loss = job.loss,
          .samples_per_s = job.samples_per_s,
          .step_s = job.step_s,
          .restarts = live.restarts};
}

nlohmann::json number_or_null(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

}  // namespace

class Display::View {
 public:
  View(const RunConfig& config, const RunDir& run, const std::atomic<bool>& abandon)
      : config_(config),
        run_(run),
        abandon_(abandon),
        events_(run),
        progress_([] { return terminal_traits(STDERR_FILENO); }, system_clock(),
                  [](std::string_view bytes) { put(STDERR_FILENO, bytes); }),
        logs_(run, log_options(), system_clock(),
              [this](LogStream stream, std::string_view bytes) { on_output(stream, bytes); }) {}

  // True: there is more to show at once.
  bool poll() {
    show_events();
    bool more = false;
    progress_guard([&] { more = shows_output() && logs_.poll(); });
    if (system_clock().now() >= next_live_) show_live();
    return more;
  }

  void finish() {
    if (shows_output()) {
      progress_guard([&] { logs_.finish(); });
    }
    show_events();
    progress_.finish();
  }

 private:
  bool shows_output() const {
    return !config_.json && (config_.show_stdout || config_.show_stderr);
  }

  LogViewOptions log_options() const {
    const TerminalTraits traits = terminal_traits(STDOUT_FILENO);
    LogViewOptions options;
    options.merge.follow = true;
    options.merge.ranks = shown_ranks(config_);
    options.merge.split_carriage_returns = traits.tty;
    options.merge.max_behind_bytes = traits.tty ? LogView::kMaxBehindBytes : 0;
    options.terminal = traits.tty;
    options.colour = traits.colour;
    if (config_.show_stdout != config_.show_stderr) {
      options.only_stream = config_.show_stdout ? LogStream::kStdout : LogStream::kStderr;
    }
    return options;
  }

  // The progress line is taken away only when something is printed.
  template <typename Body>
  void progress_guard(Body body) {
    body();
    if (pending_.empty()) return;
    progress_.around([this] {
      for (const auto& [stream, bytes] : pending_) {
        put(stream == LogStream::kStderr ? STDERR_FILENO : STDOUT_FILENO, bytes);
      }
    });
    pending_.clear();
    pending_bytes_ = 0;
  }

  void on_output(LogStream stream, std::string_view bytes) {
    if (abandon_) return;
    if (!pending_.empty() && pending_.back().first == stream) {
      pending_.back().second += bytes;
    } else {
      pending_.emplace_back(stream, std::string(bytes));
    }
    pending_bytes_ += bytes.size();
    if (pending_bytes_ > kMaxPendingBytes) {
      progress_guard([] {});
    }
  }

  void show_events() {
    for (const Event& event : events_.poll()) {
      if (config_.json) {
        const auto line = encode_event(event);
        if (line.ok()) put(STDOUT_FILENO, *line + "\n");
      } else if (!config_.quiet && worth_a_line(event)) {
        progress_.print(
            fmt::format("shanty {}  {}\n", format_local_time_of_day(event.unix_ns), event.text));
      }
    }
  }

  void show_live() {
    next_live_ = system_clock().now() + kLiveEvery;
    if (config_.quiet && !config_.json) return;
    const auto live = read_live(run_.live_json());
    if (!live.ok() || live->unix_ns == last_live_unix_ns_) return;
    last_live_unix_ns_ = live->unix_ns;
    const Progress progress = to_progress(*live);
    if (!config_.json) {
      progress_.update(progress);
      return log_ranks(*live);
    }
    const nlohmann::json line = {
        {"kind", "progress"},
        {"state", progress.state},
        {"step", progress.has_step ? nlohmann::json(progress.step) : nlohmann::json(nullptr)},
        {"total_steps", progress.total_steps},
        {"loss", number_or_null(progress.loss)},
        {"samples_per_s", number_or_null(progress.samples_per_s)},
        {"step_s", number_or_null(progress.step_s)},
        {"restarts", progress.restarts},
        {"unix_ns", live->unix_ns}};
    put(STDOUT_FILENO, line.dump() + "\n");
  }

  // src/follow/agent_output.cc finds the line again by its first word.
  void log_ranks(const LiveState& live) {
    if (!config_.log_ranks || live.ranks.empty() || system_clock().now() < next_ranks_) return;
    const std::string line = encode_live_line(live);
    next_ranks_ = system_clock().now() + wait_after_live_line(line.size());
    progress_.print(
        fmt::format("shanty {}  ranks {}\n", format_local_time_of_day(live.unix_ns), line));
  }

  static constexpr size_t kMaxPendingBytes = 1 << 20;

  const RunConfig& config_;
  const RunDir& run_;
  const std::atomic<bool>& abandon_;
  EventFollower events_;
  ProgressLine progress_;
  std::vector<std::pair<LogStream, std::string>> pending_;
  size_t pending_bytes_ = 0;
  TimePoint next_live_;
  TimePoint next_ranks_;
  int64_t last_live_unix_ns_ = 0;
  LogView logs_;
};

Display::Display(const RunConfig& config, const RunDir& run)
    : config_(config), run_(run), thread_([this] { loop(); }) {}

Display::~Display() {
  abandon_ = true;
  finishing_ = true;
  if (thread_.joinable()) thread_.join();
}

void Display::loop() {
  View view(config_, run_, abandon_);
  while (!finishing_) {
    if (!view.poll()) std::this_thread::sleep_for(kPollEvery);
  }
  if (!abandon_) view.finish();
  done_ = true;
}

void Display::finish(Duration limit) {
  finishing_ = true;
  const TimePoint deadline = system_clock().now() + limit;
  while (!done_ && system_clock().now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (done_) {
    thread_.join();
    return;
  }
  // Whoever reads our output does not; the thread ends with the process.
  abandon_ = true;
  thread_.detach();
}

}  // namespace shanty
