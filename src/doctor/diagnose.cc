#include "doctor/diagnose.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "causes/report.h"
#include "doctor/case.h"
#include "doctor/launcher_saw.h"
#include "doctor/readers/readers.h"
#include "doctor/rule.h"
#include "doctor/structured.h"
#include "doctor/weigh.h"
#include "logs/prefix.h"

namespace shanty {
namespace {

void read_input(const Input& input, ClusterFacts& facts, std::vector<std::string>& notes) {
  using Reader = void (*)(std::string_view, const std::string&, ClusterFacts&);
  Reader reader = nullptr;
  switch (input.kind) {
    case InputKind::kKubernetesYaml:
      reader = read_kubernetes;
      break;
    case InputKind::kDescribe:
      reader = read_describe;
      break;
    case InputKind::kNvidiaSmi:
      reader = read_nvidia_smi;
      break;
    case InputKind::kTopologyMatrix:
      reader = read_topology_matrix;
      break;
    case InputKind::kNcclTopology:
      reader = read_nccl_topology;
      break;
    case InputKind::kNcclTests:
      reader = read_nccl_tests;
      break;
    case InputKind::kIperf:
      reader = read_iperf;
      break;
    case InputKind::kPySpy:
      reader = read_py_spy;
      break;
    case InputKind::kRasJson:
      reader = read_ras_json;
      break;
    case InputKind::kLog:
    case InputKind::kKernelLog:
    case InputKind::kEventTable:
    case InputKind::kFlightRecorder:
    case InputKind::kRunDirectory:
      return;
  }
  const auto text = input.read(kMaxFactsText);
  if (text) {
    reader(*text, input.name, facts);
  } else {
    notes.push_back(input.name + ": " + text.error().message);
  }
}

// A stack names a process; the logs know its rank.
void name_ranks(const LogBook& book, ClusterFacts& facts) {
  std::map<int64_t, int> ranks;
  for (const Record& record : book.records) {
    if (record.pid > 0 && record.rank >= 0) ranks.emplace(record.pid, record.rank);
  }
  for (StackFact& stack : facts.stacks) {
    const auto at = ranks.find(stack.pid);
    if (stack.rank < 0 && at != ranks.end()) stack.rank = at->second;
  }
}

// Groups of patterns that catch the name of a host.
constexpr std::string_view kHostGroups[] = {"host", "peer", "addr", "who", "server", "node"};
constexpr std::string_view kHostEvents[] = {"summary_host", "rdzv_master", "launch_endpoint"};

void add_hosts(const Record& record, std::set<std::string>& names) {
  const auto add = [&names](std::string_view text) {
    names.insert(std::string(text.substr(0, text.find_first_of("<:,]"))));
  };
  for (const std::string_view group : kHostGroups) add(record.get(group));
  const bool tells_host = std::find(std::begin(kHostEvents), std::end(kHostEvents), record.event) !=
                          std::end(kHostEvents);
  if (tells_host) add(record.get("value"));
}

std::vector<std::string> names_of(const LogBook& book, const ClusterFacts& facts) {
  std::set<std::string> names;
  for (const LogFile& file : book.files) {
    names.insert(file.node);
    names.insert(read_file_name(file.name).node);
  }
  for (const Record& record : book.records) {
    names.insert(record.node);
    names.insert(record.pod);
    add_hosts(record, names);
  }
  for (const PodFact& pod : facts.pods) {
    names.insert(pod.name);
    names.insert(pod.node);
  }
  for (const NodeFact& node : facts.nodes) names.insert(node.name);
  for (const RasParagraph& paragraph : facts.ras) {
    names.insert(paragraph.nodes.begin(), paragraph.nodes.end());
  }
  names.erase("");
  return {names.begin(), names.end()};
}

}  // namespace

Diagnosis diagnose(const CaseFiles& files, const DiagnoseOptions& options) {
  Diagnosis out;
  ClusterFacts facts;
  for (const Input& input : files.inputs) read_input(input, facts, out.notes);
  name_ranks(files.logs, facts);
  const Case of(files.logs, facts);
  Hypotheses hypotheses;
  for (size_t i = 0; i < kRuleCount; ++i) kRules[i](of, hypotheses);
  name_whom_launcher_saw(of, hypotheses);
  add_flight_findings(files, hypotheses, out.notes);
  add_run_findings(files, options, hypotheses, out.notes);
  out.findings = weigh(std::move(hypotheses));
  for (Finding& finding : out.findings) complete(finding);
  out.names = names_of(files.logs, facts);
  return out;
}

}  // namespace shanty
