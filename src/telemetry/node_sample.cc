#include "telemetry/node_sample.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "os/files.h"
#include "telemetry/proc_file.h"
#include "text/json_fields.h"

namespace shanty {
namespace {

using nlohmann::json;

constexpr size_t kMaxProcBytes = size_t{64} << 10;  // /proc/stat is long, its first line is not
constexpr size_t kMaxFileBytes = size_t{256} << 20;
constexpr double kNsPerUs = 1000;

std::string read_proc(const std::string& path) { return read_start(path, kMaxProcBytes); }

// The numbers of a line.
std::vector<double> numbers_of(std::string_view line) {
  std::vector<double> out;
  while (true) {
    line.remove_prefix(std::min(line.find_first_of("0123456789"), line.size()));
    if (line.empty()) return out;
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (error != std::errc()) return out;
    out.push_back(static_cast<double>(value));
    line.remove_prefix(static_cast<size_t>(end - line.data()));
  }
}

// What follows `word` on the line that begins with it, or empty.
std::string_view behind(std::string_view text, std::string_view word) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const size_t start = std::min(line.find_first_not_of(' '), line.size());
    if (line.substr(start).starts_with(word)) return line.substr(start + word.size());
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

double first_number(std::string_view text) {
  const std::vector<double> numbers = numbers_of(text);
  return numbers.empty() ? 0 : numbers.front();
}

// "some avg10=0.00 avg60=0.00 avg300=0.00 total=12345"
double pressure_us(const std::string& text) {
  const std::string_view some = behind(text, "some ");
  const size_t at = some.find("total=");
  return at == some.npos ? 0 : first_number(some.substr(at));
}

double net_bytes(const std::string& text) {
  double sum = 0;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const size_t colon = line.find(':');
    if (colon == line.npos || behind(line, "lo:").data() != nullptr) continue;
    // Received: bytes and seven more; sent: bytes first.
    const std::vector<double> numbers = numbers_of(line.substr(colon));
    if (numbers.size() > 8) sum += numbers[0] + numbers[8];
  }
  return sum;
}

// cpu.stat of the control group this process is in, by cgroup v2, or of the root that it sees.
std::string find_cpu_stat(const std::string& root) {
  const std::string own = read_proc(root + "/proc/self/cgroup");
  const std::string_view path = behind(own, "0::");
  const std::string base = root + "/sys/fs/cgroup";
  const std::string inner = base + std::string(path) + "/cpu.stat";
  return file_exists(inner) ? inner : base + "/cpu.stat";
}

double share(double part, double whole) {
  return whole > 0 ? std::clamp(part / whole, 0.0, 1.0) : 0;
}

double rounded(double value) { return std::round(value * 1e4) / 1e4; }

}  // namespace

NodeSampler::NodeSampler(std::string root)
    : root_(std::move(root)), cpu_stat_(find_cpu_stat(root_)) {}

std::optional<NodeSampler::Counters> NodeSampler::read_counters(int64_t unix_ns) const {
  // user nice system idle iowait irq softirq steal; guests are counted in user.
  const std::string stat = read_proc(root_ + "/proc/stat");
  std::vector<double> cpu = numbers_of(behind(stat, "cpu "));
  if (cpu.size() < 4) return std::nullopt;
  cpu.resize(8);
  Counters out{.unix_ns = unix_ns};
  out.cpu_busy = cpu[0] + cpu[1] + cpu[2] + cpu[5] + cpu[6];
  out.cpu_iowait = cpu[4];
  out.cpu_steal = cpu[7];
  for (const double part : cpu) out.cpu_all += part;
  out.throttled_us = first_number(behind(read_proc(cpu_stat_), "throttled_usec"));
  const char* kinds[] = {"cpu", "memory", "io"};
  for (size_t i = 0; i < 3; ++i) {
    out.pressure_us[i] = pressure_us(read_proc(root_ + "/proc/pressure/" + kinds[i]));
  }
  out.net_bytes = net_bytes(read_proc(root_ + "/proc/net/dev"));
  return out;
}

double NodeSampler::memory_available() const {
  const std::string text = read_proc(root_ + "/proc/meminfo");
  return share(first_number(behind(text, "MemAvailable:")),
               first_number(behind(text, "MemTotal:")));
}

std::optional<NodeSample> NodeSampler::sample(int64_t unix_ns) {
  const auto now = read_counters(unix_ns);
  const auto before = std::exchange(last_, now);
  if (!now || !before || now->unix_ns <= before->unix_ns) return std::nullopt;
  const double us = static_cast<double>(now->unix_ns - before->unix_ns) / kNsPerUs;
  const double ticks = now->cpu_all - before->cpu_all;
  return NodeSample{
      .unix_ns = unix_ns,
      .cpu = share(now->cpu_busy - before->cpu_busy, ticks),
      .iowait = share(now->cpu_iowait - before->cpu_iowait, ticks),
      .steal = share(now->cpu_steal - before->cpu_steal, ticks),
      .throttled = share(now->throttled_us - before->throttled_us, us),
      .pressure_cpu = share(now->pressure_us[0] - before->pressure_us[0], us),
      .pressure_memory = share(now->pressure_us[1] - before->pressure_us[1], us),
      .pressure_io = share(now->pressure_us[2] - before->pressure_us[2], us),
      .memory_available = memory_available(),
      .net_bytes_per_s = std::max(0.0, now->net_bytes - before->net_bytes) / us * 1e6};
}

std::string encode_node_sample(const NodeSample& s) {
  return print_json({{"unix_ns", s.unix_ns},
                     {"cpu", rounded(s.cpu)},
                     {"iowait", rounded(s.iowait)},
                     {"steal", rounded(s.steal)},
                     {"throttled", rounded(s.throttled)},
                     {"pressure_cpu", rounded(s.pressure_cpu)},
                     {"pressure_memory", rounded(s.pressure_memory)},
                     {"pressure_io", rounded(s.pressure_io)},
                     {"memory_available", rounded(s.memory_available)},
                     {"net_bytes_per_s", std::round(s.net_bytes_per_s)}});
}

std::optional<NodeSample> decode_node_sample(std::string_view line) {
  const auto in = parse_json(line);
  if (!in || !in->is_object()) return std::nullopt;
  const int64_t unix_ns = json_int64(*in, "unix_ns");
  if (unix_ns <= 0) return std::nullopt;
  const auto part = [&](const char* name) { return std::clamp(json_double(*in, name), 0.0, 1.0); };
  return NodeSample{.unix_ns = unix_ns,
                    .cpu = part("cpu"),
                    .iowait = part("iowait"),
                    .steal = part("steal"),
                    .throttled = part("throttled"),
                    .pressure_cpu = part("pressure_cpu"),
                    .pressure_memory = part("pressure_memory"),
                    .pressure_io = part("pressure_io"),
                    .memory_available = part("memory_available"),
                    .net_bytes_per_s = std::max(0.0, json_double(*in, "net_bytes_per_s"))};
}

std::vector<NodeSample> read_node_samples(const std::string& path) {
  std::vector<NodeSample> out;
  const auto text = read_file(path, kMaxFileBytes);
  if (!text) return out;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    if (const auto sample = decode_node_sample(rest.substr(0, end))) out.push_back(*sample);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (out.size() > kMaxNodeSamples) {
    out.erase(out.begin(), out.end() - static_cast<ptrdiff_t>(kMaxNodeSamples));
  }
  return out;
}

}  // namespace shanty
