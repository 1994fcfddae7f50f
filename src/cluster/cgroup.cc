#include "cluster/cgroup.h"

#include <string_view>
#include <vector>

#include "cluster/files.h"

namespace shanty {
namespace {

constexpr size_t kMaxCgroupDepth = 64;
// cgroup v1 says "no limit" by a number near 2^63.
constexpr uint64_t kUnlimitedFrom = 1ull << 60;

void tighten(std::optional<Limit>& limit, std::optional<double> value, const std::string& from) {
  if (!value || *value <= 0) return;
  if (!limit || *value < limit->value) limit = Limit{*value, from};
}

// "/a/b" -> "/a/b", "/a", "": a group is bound by those above it as well.
std::vector<std::string> group_and_parents(std::string path) {
  std::vector<std::string> paths;
  while (path.size() > 1 && paths.size() < kMaxCgroupDepth) {
    paths.push_back(path);
    path.resize(path.rfind('/'));
  }
  paths.emplace_back();
  return paths;
}

std::optional<double> cpu_max(const std::string& path) {
  const auto text = read_fact(path);
  if (!text) return std::nullopt;
  const auto words = split_words(*text);
  if (words.size() != 2) return std::nullopt;
  const auto quota = to_number(words[0]);  // "max" is no number
  const auto period = to_number(words[1]);
  if (!quota || !period || *period == 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<double> cfs_quota(const std::string& directory) {
  const auto quota = read_fact_number(directory + "/cpu.cfs_quota_us");  // "-1" is no number
  const auto period = read_fact_number(directory + "/cpu.cfs_period_us");
  if (!quota || !period || *period == 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<double> memory_limit(const std::string& path) {
  const auto bytes = read_fact_number(path);
  if (!bytes || *bytes >= kUnlimitedFrom) return std::nullopt;
  return static_cast<double>(*bytes);
}

void read_v2(const std::string& root, const std::string& group, CgroupLimits& limits) {
  for (const std::string& path : group_and_parents(group)) {
    const std::string directory = "/sys/fs/cgroup" + path;
    tighten(limits.cpus, cpu_max(root + directory + "/cpu.max"), directory + "/cpu.max");
    tighten(limits.memory_bytes, memory_limit(root + directory + "/memory.max"),
            directory + "/memory.max");
  }
}

void read_v1(const std::string& root, std::string_view controller, const std::string& group,
             CgroupLimits& limits) {
  for (const std::string& path : group_and_parents(group)) {
    const std::string directory = "/sys/fs/cgroup/" + std::string(controller) + path;
    if (controller == "memory") {
      const std::string file = directory + "/memory.limit_in_bytes";
      tighten(limits.memory_bytes, memory_limit(root + file), file);
    } else {
      tighten(limits.cpus, cfs_quota(root + directory), directory + "/cpu.cfs_quota_us");
    }
  }
}

}  // namespace

CgroupLimits read_cgroup_limits(const std::string& root) {
  CgroupLimits limits;
  // Each line is "ID:CONTROLLERS:PATH"; v2 has ID 0 and no controllers.
  for (const std::string& line : split_lines(read_fact(root + "/proc/self/cgroup").value_or(""))) {
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") read_v2(root, group, limits);
    if (controllers.find(",cpu,") != controllers.npos) read_v1(root, "cpu", group, limits);
    if (controllers.find(",memory,") != controllers.npos) read_v1(root, "memory", group, limits);
  }
  return limits;
}

}  // namespace shanty
