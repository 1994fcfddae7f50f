#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "doctor/cluster_facts.h"

namespace shanty {

// One reader for each kind of input beside logs. Each adds what it understands of `text` to
// `facts`; what it does not understand it leaves out. `name` is the file's, for evidence.
inline constexpr size_t kMaxFactsText = 64u << 20;

void read_kubernetes(std::string_view text, const std::string& name, ClusterFacts& facts);
void read_describe(std::string_view text, const std::string& name, ClusterFacts& facts);
void read_nvidia_smi(std::string_view text, const std::string& name, ClusterFacts& facts);
void read_topology_matrix(std::string_view text, const std::string& name, ClusterFacts& facts);
void read_nccl_topology(std::string_view text, const std::string& name, ClusterFacts& facts);
void read_nccl_tests(std::string_view text, const std::string& name, ClusterFacts& facts);
void read_iperf(std::string_view text, const std::string& name, ClusterFacts& facts);
// `ncclras --format json`; its text form is read line by line, as it may stand in any log.
void read_ras_json(std::string_view text, const std::string& name, ClusterFacts& facts);
void read_py_spy(std::string_view text, const std::string& name, ClusterFacts& facts);

}  // namespace shanty
