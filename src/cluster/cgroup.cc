#include "cluster/cgroup.h"

#include <algorithm>
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

// The directories of the groups that bind this process for `controller`, "cpu" or "memory".
struct Group {
  std::string directory;
  bool v2 = false;
};

std::vector<Group> groups_of(const std::string& root, const std::string& controller) {
  std::vector<Group> groups;
  // Each line is "ID:CONTROLLERS:PATH"; v2 has ID 0 and no controllers.
  for (const std::string& line : split_lines(read_fact(root + "/proc/self/cgroup").value_or(""))) {
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool v2 = controllers == ",,";
    if (!v2 && controllers.find("," + controller + ",") == controllers.npos) continue;
    const std::string base = "/sys/fs/cgroup" + (v2 ? "" : "/" + controller);
    for (const std::string& path : group_and_parents(line.substr(second + 1))) {
      groups.push_back({base + path, v2});
    }
  }
  return groups;
}

std::string memory_file(const Group& group) {
  return group.directory + (group.v2 ? "/memory.max" : "/memory.limit_in_bytes");
}

// "KEY NUMBER" of a file with one such pair a line; a colon after the key is no part of it.
uint64_t number_behind(const std::string& text, std::string_view key) {
  for (const std::string& line : split_lines(text)) {
    const auto words = split_words(line);
    if (words.size() < 2 || (words[0] != key && words[0] != std::string(key) + ":")) continue;
    return to_number(words[1]).value_or(0);
  }
  return 0;
}

std::optional<double> room_in(const std::string& root, const Group& group) {
  const auto limit = memory_limit(root + memory_file(group));
  const auto used = read_fact_number(root + group.directory +
                                     (group.v2 ? "/memory.current" : "/memory.usage_in_bytes"));
  if (!limit || !used) return std::nullopt;
  const std::string stat = read_fact(root + group.directory + "/memory.stat").value_or("");
  const std::string total = group.v2 ? "" : "total_";
  const auto cache = static_cast<double>(number_behind(stat, total + "inactive_file") +
                                         number_behind(stat, total + "active_file"));
  // One byte where nothing is left: `tighten` takes zero for unknown.
  return std::max(1.0, *limit - std::max(0.0, static_cast<double>(*used) - cache));
}

}  // namespace

CgroupLimits read_cgroup_limits(const std::string& root) {
  CgroupLimits limits;
  for (const Group& group : groups_of(root, "cpu")) {
    if (group.v2) {
      tighten(limits.cpus, cpu_max(root + group.directory + "/cpu.max"),
              group.directory + "/cpu.max");
    } else {
      tighten(limits.cpus, cfs_quota(root + group.directory),
              group.directory + "/cpu.cfs_quota_us");
    }
  }
  for (const Group& group : groups_of(root, "memory")) {
    const std::string file = memory_file(group);
    tighten(limits.memory_bytes, memory_limit(root + file), file);
  }
  return limits;
}

std::optional<Limit> read_memory_room(const std::string& root) {
  std::optional<Limit> room;
  const std::string meminfo = read_fact(root + "/proc/meminfo").value_or("");
  tighten(room, static_cast<double>(number_behind(meminfo, "MemAvailable")) * 1024,
          "/proc/meminfo");
  for (const Group& group : groups_of(root, "memory")) {
    tighten(room, room_in(root, group), memory_file(group));
  }
  return room;
}

}  // namespace shanty
