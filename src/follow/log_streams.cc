#include "follow/log_streams.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "follow/log_tail.h"
#include "follow/patience.h"

namespace shanty::follow {
namespace {

constexpr Duration kAgainAfter = std::chrono::milliseconds(500);
constexpr Duration kLongestAgain = std::chrono::seconds(10);  // it doubles from failure to failure

bool has_output(const PodState& pod) {
  const ContainerState* trainer = pod.trainer();
  return !pod.is_helper && trainer != nullptr && trainer->phase != ContainerState::Phase::kWaiting;
}

bool shows_all(const PodState& pod) { return pod.run_dir_stays; }

}  // namespace

struct LogStreams::Stream {
  std::string pod;
  std::string container;
  uint64_t tail_lines = 0;
  std::atomic<bool> is_ended = false;  // the container prints nothing more
  std::jthread thread;
};

LogStreams::LogStreams(kube::Client& client, MessageQueue& queue, uint64_t tail_lines,
                       std::stop_token stop)
    : client_(client), queue_(queue), tail_lines_(tail_lines), stop_(std::move(stop)) {}
LogStreams::~LogStreams() = default;

bool LogStreams::wants(const PodState& pod) const {
  if (!has_output(pod) || streams_.contains(pod.uid)) return false;
  if (shows_all(pod) && pod.node_rank > 0) return false;
  return open_.size() < kMaxStreams;
}

void LogStreams::on_pod(const PodState& pod) {
  if (!has_output(pod)) new_.insert(pod.uid);
  if (wants(pod)) {
    auto stream = std::make_unique<Stream>();
    stream->pod = pod.name;
    stream->container = pod.trainer()->name;
    if (!new_.contains(pod.uid)) stream->tail_lines = tail_lines_;
    stream->is_ended = pod.has_ended();  // before it reads: then one reading has all
    open_.insert(pod.name);
    Stream& made = *stream;
    streams_[pod.uid] = std::move(stream);
    made.thread = std::jthread([this, &made] { read(made); });
  }
  const auto found = streams_.find(pod.uid);
  if (found != streams_.end() && pod.has_ended()) found->second->is_ended = true;
}

void LogStreams::read(Stream& stream) {
  bool told_any = false;
  LogTail tail([&](std::string_view line) {
    told_any = true;
    queue_.push(LogLine{.pod = stream.pod, .line = std::string(line)}, stop_);
  });
  kube::LogOptions options{.container = stream.container, .follow = true, .timestamps = true};
  Duration again = kAgainAfter;
  TimePoint heard_at = system_clock().now();
  while (!stop_.stop_requested()) {
    const bool was_ended = stream.is_ended;
    // Once lines were told, those after them are wanted, however many.
    options.tail_lines.reset();
    if (stream.tail_lines > 0 && !told_any) options.tail_lines = stream.tail_lines;
    tail.begin_again();
    const auto read = client_.logs(client_.access().k8s_namespace, stream.pod, options,
                                   [&](std::string_view bytes) {
                                     again = kAgainAfter;
                                     heard_at = system_clock().now();
                                     tail.feed(bytes);
                                     return !stop_.stop_requested();
                                   });
    // Only a log that was read whole after the container's end has all of it.
    if (was_ended && (read.ok() || read.error().is_not_found())) break;
    if (!read.ok() && read.error().is_forbidden()) {
      queue_.push(Trouble{read.error().message}, stop_);
      break;
    }
    if (!read.ok() && system_clock().now() - heard_at >= kGiveUpAfter) {
      queue_.push(Trouble{fmt::format("{}; given up after {:.0f} s, shanty logs shows the rest",
                                      read.error().message, to_seconds(kGiveUpAfter))},
                  stop_);
      break;
    }
    if (!client_.wait(again)) break;
    again = read.ok() ? kAgainAfter : std::min(2 * again, kLongestAgain);
  }
  tail.finish();
  queue_.push(LogOver{stream.pod}, stop_);
}

void LogStreams::on_pod_gone(const std::string& name) {
  for (auto& [uid, stream] : streams_) {
    if (stream->pod == name) stream->is_ended = true;
  }
}

void LogStreams::end_all() {
  for (auto& [uid, stream] : streams_) stream->is_ended = true;
}

std::vector<PodState> pods_to_read(const std::vector<PodState>& pods) {
  std::vector<PodState> out;
  for (const PodState& pod : pods) {
    if (has_output(pod) && !(shows_all(pod) && pod.node_rank > 0)) out.push_back(pod);
  }
  std::ranges::sort(out, {}, &PodState::node_rank);
  return out;
}

}  // namespace shanty::follow
