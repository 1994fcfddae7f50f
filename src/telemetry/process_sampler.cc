#include "telemetry/process_sampler.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <unistd.h>

#include "os/files.h"
#include "telemetry/proc_file.h"

namespace shanty {
namespace {

constexpr size_t kMaxStatBytes = 4096;
// Fields of /proc/PID/stat behind the name in parentheses, counted from 0 (state).
constexpr size_t kUserTicksField = 11;
constexpr size_t kSystemTicksField = 12;
constexpr size_t kRssPagesField = 21;

std::string read_small(const std::string& path) { return read_start(path, kMaxStatBytes); }

template <typename Number>
std::optional<Number> parse(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" \n"), text.size()));
    if (text.empty()) return words;
    words.push_back(text.substr(0, text.find_first_of(" \n")));
    text.remove_prefix(words.back().size());
  }
}

struct ProcessStat {
  uint64_t cpu_ticks = 0;
  uint64_t rss_bytes = 0;
};

std::optional<ProcessStat> read_stat(const std::string& path) {
  const std::string text = read_small(path);
  const size_t name_end = text.rfind(')');  // the name may hold spaces and parentheses
  if (name_end == std::string::npos) return std::nullopt;
  const auto fields = words_of(std::string_view(text).substr(name_end + 1));
  if (fields.size() <= kRssPagesField) return std::nullopt;
  const bool zombie = fields[0] == "Z" || fields[0] == "X";
  if (zombie) return std::nullopt;
  static const auto page_bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  ProcessStat stat;
  stat.cpu_ticks = parse<uint64_t>(fields[kUserTicksField]).value_or(0) +
                   parse<uint64_t>(fields[kSystemTicksField]).value_or(0);
  stat.rss_bytes = parse<uint64_t>(fields[kRssPagesField]).value_or(0) * page_bytes;
  return stat;
}

}  // namespace

ProcessTreeSample ProcessSampler::sample(TimePoint now) {
  static const auto ticks_per_s = static_cast<double>(::sysconf(_SC_CLK_TCK));
  find_processes(samples_ % kFullScanEvery == 0);
  ProcessTreeSample out;
  std::map<int, uint64_t> ticks;
  uint64_t used_ticks = 0;
  for (const int pid : pids_) {
    const auto stat = read_stat(proc_root_ + "/" + std::to_string(pid) + "/stat");
    if (!stat) continue;
    ++out.processes;
    out.rss_bytes += stat->rss_bytes;
    ticks[pid] = stat->cpu_ticks;
    const auto before = cpu_ticks_.find(pid);
    const uint64_t base = before == cpu_ticks_.end() ? 0 : before->second;
    if (stat->cpu_ticks > base) used_ticks += stat->cpu_ticks - base;
  }
  const double elapsed_s = to_seconds(now - last_);
  if (samples_ > 0 && elapsed_s > 0) {
    out.cpu_cores = static_cast<double>(used_ticks) / ticks_per_s / elapsed_s;
  }
  cpu_ticks_ = std::move(ticks);
  last_ = now;
  ++samples_;
  return out;
}

// Between full scans processes that were known and still are there are kept: children of threads
// other than the main one (loader workers started from a thread) are seen by full scans only.
void ProcessSampler::find_processes(bool full_scan) {
  std::vector<int> found{pid_};
  if (!full_scan) {
    for (const int pid : pids_) {
      if (pid != pid_ && cpu_ticks_.contains(pid)) found.push_back(pid);
    }
  }
  for (size_t i = 0; i < found.size() && found.size() < kMaxProcesses; ++i) {
    add_children(found[i], full_scan, found);
  }
  pids_ = std::move(found);
}

void ProcessSampler::add_children(int pid, bool full_scan, std::vector<int>& found) const {
  const std::string process = proc_root_ + "/" + std::to_string(pid);
  std::vector<std::string> tasks{std::to_string(pid)};
  if (full_scan) {
    auto all = list_directory(process + "/task");
    if (all) tasks = std::move(*all);
  }
  for (const std::string& task : tasks) {
    const std::string children = read_small(process + "/task/" + task + "/children");
    for (const std::string_view word : words_of(children)) {
      const auto child = parse<int>(word);
      const bool known = child && std::find(found.begin(), found.end(), *child) != found.end();
      if (child && !known && found.size() < kMaxProcesses) found.push_back(*child);
    }
  }
}

}  // namespace shanty
