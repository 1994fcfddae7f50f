#include "launch/display.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
constexpr size_t kPieceBytes = 16 * 1024;  // written at once; each that was taken is a sign of life

const Streams& shown_of(const RunConfig& config, int rank) {
  return config.shown[static_cast<size_t>(rank % config.slots)];
}

std::vector<int> shown_ranks(const RunConfig& config) {
  std::vector<int> ranks;
  for (int rank = 0; rank < config.nodes * config.slots; ++rank) {
    if (shown_of(config, rank).any()) ranks.push_back(rank);
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

struct Display::Shared {
  const RunConfig config;
  const RunDir run;
  std::atomic<bool> finishing = false;
  std::atomic<bool> abandon = false;
  std::atomic<bool> done = false;
  std::atomic<uint64_t> pieces_taken = 0;
};

class Display::View {
 public:
  explicit View(Shared& shared)
      : shared_(shared),
        config_(shared.config),
        run_(shared.run),
        events_(run_),
        progress_([] { return terminal_traits(STDERR_FILENO); }, system_clock(),
                  [this](std::string_view bytes) { put(STDERR_FILENO, bytes); }),
        logs_(run_, log_options(), system_clock(),
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
  // A failing write (a closed pipe) is not the job's problem.
  void put(int fd, std::string_view bytes) {
    while (!bytes.empty() && !shared_.abandon) {
      const std::string_view piece = bytes.substr(0, kPieceBytes);
      if (!write_all(fd, piece).ok()) return;
      ++shared_.pieces_taken;
      bytes.remove_prefix(piece.size());
    }
  }

  bool shows_output() const {
    return !config_.json && std::any_of(config_.shown.begin(), config_.shown.end(),
                                        [](const Streams& streams) { return streams.any(); });
  }

  LogViewOptions log_options() const {
    const TerminalTraits traits = terminal_traits(STDOUT_FILENO);
    LogViewOptions options;
    options.merge.follow = true;
    options.merge.ranks = shown_ranks(config_);
    options.merge.wants = [&config = config_](int rank, LogStream stream) {
      const Streams& shown = shown_of(config, rank);
      return stream == LogStream::kStderr ? shown.err : shown.out;
    };
    options.merge.split_carriage_returns = traits.tty;
    options.merge.max_behind_bytes = traits.tty ? LogView::kMaxBehindBytes : 0;
    options.terminal = traits.tty;
    options.colour = traits.colour;
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
    if (shared_.abandon) return;
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

  Shared& shared_;
  const RunConfig& config_;
  const RunDir& run_;
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
    : shared_(new Shared{.config = config, .run = run}), thread_([shared = shared_] {
        View view(*shared);
        while (!shared->finishing) {
          if (!view.poll()) std::this_thread::sleep_for(kPollEvery);
        }
        if (!shared->abandon) view.finish();
        shared->done = true;
      }) {}

Display::~Display() {
  shared_->abandon = true;
  shared_->finishing = true;
  if (thread_.joinable()) thread_.join();
}

void Display::finish(Duration limit) {
  shared_->finishing = true;
  TimePoint deadline = system_clock().now() + limit;
  uint64_t taken = shared_->pieces_taken;
  while (!shared_->done && system_clock().now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const uint64_t now_taken = shared_->pieces_taken;
    if (now_taken == taken) continue;
    taken = now_taken;
    deadline = system_clock().now() + limit;
  }
  if (shared_->done) {
    thread_.join();
    return;
  }
  // Whoever reads our output does not; the thread ends with the process.
  shared_->abandon = true;
  thread_.detach();
}

}  // namespace shanty
