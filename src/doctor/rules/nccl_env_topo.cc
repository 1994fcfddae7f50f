#include <map>
#include <set>

#include <fmt/format.h>

#include "doctor/rule.h"

namespace shanty {
namespace {

Records variables(const Case& of, std::initializer_list<std::string_view> names) {
  Records out;
  for (const Record* record : of.all("nccl_env")) {
    for (const auto name : names) {
      if (record->get("name") == name) out.push_back(record);
    }
  }
  return out;
}

void topology(const Case& of, Hypotheses& out) {
  const Records lines = of.all("nccl_topo_file");
  const Records env = variables(of, {"NCCL_TOPO_FILE", "NCCL_GRAPH_FILE"});
  const bool system_error = of.has("nccl_error") && !env.empty() && !of.has("nccl_connect") &&
                            !of.has("timeout") && !of.has("shm_full");
  if (lines.empty() && !system_error) return;
  Draft draft(of, "NCCL105", "nccl_env_topo", lines.empty() ? 0.6 : 0.93);
  draft.show(lines).show(env).blame(lines.empty() ? env : lines);
  for (const Record* record : env) draft.file(std::string(record->get("value")));
  draft.message(
      fmt::format("NCCL cannot use the topology file{}",
                  env.empty() ? " it was given" : " " + std::string(env.front()->get("value"))));
  draft.rule_out("a bug of NCCL: the internal error comes from the file");
  draft.fix(
      "unset NCCL_TOPO_FILE and NCCL_GRAPH_FILE, look into /etc/nccl.conf of the image; for "
      "cloud images the file that belongs to this instance type");
  out.push_back(draft.done());
}

// All ranks started a communicator, none got it, and the nodes have different numbers of ranks.
void uneven(const Case& of, Hypotheses& out) {
  std::set<std::pair<std::string, int64_t>> started;
  std::set<std::pair<std::string, int64_t>> complete;
  for (const Record* record : of.all("nccl_init")) {
    (record->get("what") == "START" ? started : complete).insert({record->node, record->pid});
  }
  std::map<std::string, int64_t> local_ranks;
  Records lines;
  for (const Record* record : of.all("nccl_nodes")) {
    local_ranks[record->node] = record->number("locals");
    lines.push_back(record);
  }
  std::set<int64_t> counts;
  for (const auto& [node, count] : local_ranks) counts.insert(count);
  if (started.empty() || !complete.empty() || counts.size() < 2) return;
  Draft draft(of, "NCCL105", "nccl_env_topo", 0.8, Nearness::kStructure);
  draft.show(lines).show(of.all("nccl_version")).blame(lines);
  draft.message(
      "NCCL stops in init with different numbers of ranks on the nodes: a bug of some "
      "versions");
  draft.rule_out("network: every rank got as far as the others");
  draft.fix("the same number of ranks on each node, or another NCCL version");
  out.push_back(draft.done());
}

}  // namespace

void nccl_env_topo_rule(const Case& of, Hypotheses& out) {
  topology(of, out);
  uneven(of, out);
}

}  // namespace shanty
