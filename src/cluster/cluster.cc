#include "cluster/cluster.h"

#include <algorithm>
#include <string_view>

#include "base/units.h"
#include "cluster/cgroup.h"
#include "cluster/files.h"

namespace shanty {
namespace {

std::string after_prefix(std::string_view text, std::string_view prefix) {
  for (const std::string& line : split_lines(text)) {
    if (!line.starts_with(prefix)) continue;
    const size_t start = line.find_first_not_of(" \t", prefix.size());
    return start == line.npos ? "" : line.substr(start);
  }
  return "";
}

void read_cpus(const std::string& root, const CgroupLimits& limits, Cluster& out) {
  const std::string status = read_fact(root + "/proc/self/status").value_or("");
  const uint64_t allowed = count_cpu_list(after_prefix(status, "Cpus_allowed_list:"));
  if (allowed > 0) {
    out.cpus = allowed;
    out.cpus_from = "/proc/self/status";
  }
  if (!limits.cpus) return;
  // A quota of 1.5 CPUs runs one busy process at full speed, not two.
  const auto whole = std::max<uint64_t>(1, static_cast<uint64_t>(limits.cpus->value));
  if (out.cpus && *out.cpus <= whole) return;
  out.cpus = whole;
  out.cpus_from = limits.cpus->from;
}

std::optional<uint64_t> total_memory(const std::string& root) {
  const std::string meminfo = read_fact(root + "/proc/meminfo").value_or("");
  const auto words = split_words(after_prefix(meminfo, "MemTotal:"));
  const auto kib = words.empty() ? std::nullopt : to_number(words[0]);
  return kib ? std::optional(*kib * 1024) : std::nullopt;
}

void read_memory(const std::string& root, const CgroupLimits& limits, Cluster& out) {
  if (const auto total = total_memory(root)) {
    out.memory_bytes = total;
    out.memory_from = "/proc/meminfo";
  }
  if (!limits.memory_bytes) return;
  const auto limit = static_cast<uint64_t>(limits.memory_bytes->value);
  if (out.memory_bytes && *out.memory_bytes <= limit) return;
  out.memory_bytes = limit;
  out.memory_from = limits.memory_bytes->from;
}

// The size= option of the tmpfs at /dev/shm; without one the kernel allows half of the memory.
std::optional<uint64_t> shm_size(const std::string& root) {
  std::optional<uint64_t> size;
  for (const std::string& line : split_lines(read_fact(root + "/proc/self/mounts").value_or(""))) {
    const auto words = split_words(line);
    if (words.size() < 4 || words[1] != "/dev/shm" || words[2] != "tmpfs") continue;
    const std::string options = "," + words[3] + ",";
    const size_t at = options.find(",size=");
    if (at == options.npos) {
      const auto memory = total_memory(root);
      size = memory ? std::optional(*memory / 2) : std::nullopt;
      continue;
    }
    std::string text = options.substr(at + 6, options.find(',', at + 1) - at - 6);
    if (!text.empty() && (text.back() == 'k' || text.back() == 'm' || text.back() == 'g')) {
      text.back() = static_cast<char>(text.back() - 'a' + 'A');
      text += 'i';
    }
    const auto bytes = parse_bytes(text);
    if (bytes.ok()) size = *bytes;
  }
  return size;
}

void read_gpus(const std::string& root, Cluster& out) {
  for (const std::string& name : list_facts(root + "/dev")) {
    if (name.starts_with("nvidia") && to_number(std::string_view(name).substr(6))) ++out.gpus;
  }
  const std::string directory = root + "/proc/driver/nvidia/gpus";
  for (const std::string& name : list_facts(directory)) {
    const std::string about = read_fact(directory + "/" + name + "/information").value_or("");
    out.gpu_model = after_prefix(about, "Model:");
    if (!out.gpu_model.empty()) return;
  }
}

void read_links(const std::string& root, Cluster& out) {
  const std::string directory = root + "/sys/class/net";
  for (const std::string& name : list_facts(directory)) {
    const std::string link = directory + "/" + name;
    if (name == "lo" || read_fact(link + "/operstate").value_or("") != "up") continue;
    const auto megabits = read_fact_number(link + "/speed");  // "-1" is no number
    if (!megabits || *megabits == 0) continue;
    const double rate = static_cast<double>(*megabits) * 1e6 / 8;
    if (out.link_bytes_per_s && *out.link_bytes_per_s >= rate) continue;
    out.link_bytes_per_s = rate;
    out.link_name = name;
  }
}

}  // namespace

Cluster read_cluster(const std::string& root) {
  Cluster out;
  const CgroupLimits limits = read_cgroup_limits(root);
  out.hostname = read_fact(root + "/proc/sys/kernel/hostname").value_or("");
  read_cpus(root, limits, out);
  read_memory(root, limits, out);
  out.shm_bytes = shm_size(root);
  read_gpus(root, out);
  read_links(root, out);
  return out;
}

}  // namespace shanty
