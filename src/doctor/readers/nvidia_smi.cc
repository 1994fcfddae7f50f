#include <cstdlib>

#include "doctor/readers/lines.h"
#include "doctor/readers/readers.h"
#include "logs/pattern.h"
#include "logs/prefix.h"
#include "text/utf8.h"

namespace shanty {
namespace {

struct Patterns {
  Pattern card{
      R"~(^\| +(?P<index>\d+) +(?P<name>\S.*?) +(?:On|Off|N/A) +\| +(?P<bus>[0-9A-Fa-f:.]+) +\w+ +\| +(?P<ecc>\S+) \|)~"};
  Pattern load{
      R"~(\| *\S+ +\S+ +P\d+ +(?P<power>\d+)W */ *(?P<limit>\d+)W +\| +(?P<used>\d+)MiB */ *(?P<total>\d+)MiB +\| +(?P<util>\d+)%)~"};
  Pattern process{R"~(^\| +(?P<index>\d+) +\S+ +\S+ +(?P<pid>\d+) +[CGM+]+ +)~"};
  Pattern query_gpu{R"~(^GPU (?P<bus>[0-9A-Fa-f]{8}:[0-9A-Fa-f:.]+))~"};
  Pattern query_ecc{
      R"~((?:DRAM Uncorrectable|Double Bit|SRAM Uncorrectable)\S* *: (?P<n>[1-9]\d*))~"};
};

int64_t number(const Captures& captures, std::string_view name) {
  return std::atoll(std::string(capture(captures, name)).c_str());
}

}  // namespace

void read_nvidia_smi(std::string_view text, const std::string& name, ClusterFacts& facts) {
  const Patterns patterns;
  const NamePrefix place = read_file_name(name);
  const std::string node = place.node.empty() ? place.pod : place.node;
  const size_t first = facts.gpus.size();
  const auto current = [&]() -> GpuFact* {
    return facts.gpus.size() > first ? &facts.gpus.back() : nullptr;
  };
  for (Lines in(text); in.next();) {
    Captures captures;
    if (patterns.card.find(in.line, captures)) {
      GpuFact gpu;
      gpu.node = node;
      gpu.index = static_cast<int>(number(captures, "index"));
      gpu.name = printable(capture(captures, "name"));
      gpu.bus = printable(capture(captures, "bus"));
      gpu.uncorrectable_errors = number(captures, "ecc");
      gpu.where = {name, in.number, printable(in.line)};
      facts.gpus.push_back(std::move(gpu));
    } else if (patterns.query_gpu.find(in.line, captures)) {
      GpuFact gpu;
      gpu.node = node;
      gpu.index = static_cast<int>(facts.gpus.size() - first);
      gpu.bus = printable(capture(captures, "bus"));
      gpu.where = {name, in.number, printable(in.line)};
      facts.gpus.push_back(std::move(gpu));
    } else if (GpuFact* gpu = current(); gpu && patterns.load.find(in.line, captures)) {
      gpu->power_w = static_cast<double>(number(captures, "power"));
      gpu->power_limit_w = static_cast<double>(number(captures, "limit"));
      gpu->memory_used_mib = number(captures, "used");
      gpu->memory_total_mib = number(captures, "total");
      gpu->utilisation = static_cast<int>(number(captures, "util"));
    } else if (gpu && patterns.query_ecc.find(in.line, captures)) {
      gpu->uncorrectable_errors += number(captures, "n");
      gpu->where = {name, in.number, printable(in.line)};
    } else if (patterns.process.find(in.line, captures)) {
      for (size_t i = first; i < facts.gpus.size(); ++i) {
        facts.gpus[i].processes += facts.gpus[i].index == number(captures, "index") ? 1 : 0;
      }
    }
  }
}

}  // namespace shanty
