#include "doctor/run/node_changes.h"

#include <fmt/format.h>

namespace shanty {
namespace {

// A share of a node, and by how much it must be worse to be told.
struct Metric {
  double NodeSample::* value;
  double by;
  bool more_is_worse;
  const char* text;  // takes the share in percent
};

constexpr Metric kMetrics[] = {
    {&NodeSample::throttled, 0.05, true, "the CPU quota stops processes {:.0f} % of the time"},
    {&NodeSample::steal, 0.05, true, "the hypervisor takes {:.0f} % of the CPUs"},
    {&NodeSample::pressure_memory, 0.1, true, "processes wait for memory {:.0f} % of the time"},
    {&NodeSample::memory_available, 0.2, false, "{:.0f} % of the memory is available"},
    {&NodeSample::pressure_io, 0.2, true, "processes wait for storage {:.0f} % of the time"},
    {&NodeSample::iowait, 0.15, true, "CPUs wait for storage {:.0f} % of the time"},
    {&NodeSample::cpu, 0.2, true, "CPUs are {:.0f} % busy"},
    {&NodeSample::pressure_cpu, 0.3, true, "processes wait for a CPU {:.0f} % of the time"},
};
constexpr double NodeSample::* kShares[] = {
    &NodeSample::cpu,         &NodeSample::iowait,          &NodeSample::steal,
    &NodeSample::throttled,   &NodeSample::pressure_cpu,    &NodeSample::pressure_memory,
    &NodeSample::pressure_io, &NodeSample::memory_available};
constexpr double kMemoryShort = 0.1;
constexpr size_t kMaxTold = 3;

bool is_worse(const Metric& metric, double now, const SampleMeans& than) {
  const double more = now - than.mean.*metric.value;
  return than.samples == 0 || (metric.more_is_worse ? more : -more) >= metric.by;
}

}  // namespace

void SampleMeans::add(std::span<const NodeSample> all, int64_t begin_ns, int64_t end_ns) {
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].unix_ns <= begin_ns || all[i].unix_ns > end_ns) continue;
    if (samples++ == 0) first_line = i + 1;
    for (const auto share : kShares) {
      mean.*share += (all[i].*share - mean.*share) / static_cast<double>(samples);
    }
  }
}

SampleMeans means_of(std::span<const NodeSample> samples, int64_t begin_ns, int64_t end_ns) {
  SampleMeans out;
  out.add(samples, begin_ns, end_ns);
  return out;
}

std::vector<std::string> node_changes(const SampleMeans& since, const SampleMeans& before,
                                      const SampleMeans& others) {
  std::vector<std::string> out;
  if (since.samples == 0 || (before.samples == 0 && others.samples == 0)) return out;
  for (const Metric& metric : kMetrics) {
    const double now = since.mean.*metric.value;
    if (!is_worse(metric, now, before) || !is_worse(metric, now, others)) continue;
    if (!metric.more_is_worse && now > kMemoryShort) continue;
    std::string beside;
    if (before.samples > 0) {
      beside = fmt::format("{:.0f} % before", 100 * before.mean.*metric.value);
    }
    if (others.samples > 0) {
      beside += fmt::format("{}{:.0f} % on other nodes", beside.empty() ? "" : ", ",
                            100 * others.mean.*metric.value);
    }
    out.push_back(
        fmt::format("{} ({})", fmt::format(fmt::runtime(metric.text), 100 * now), beside));
    if (out.size() == kMaxTold) break;
  }
  return out;
}

}  // namespace shanty
