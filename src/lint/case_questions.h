#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lint/contains.h"
#include "lint/rule.h"

namespace shanty::lint {

// What several areas of rules ask.

// "8 GPUs", "1 pod".
std::string counted(double count, std::string_view noun);
// `the pods of "Worker"`, or "the pod" where there is one group only.
std::string pods_named(const Case& at);

// The kinds whose controller puts PET_* or MASTER_ADDR into the pods.
bool injects_identity(WorkloadKind kind);
// The kinds that run to an end.
bool runs_to_end(const Workload& work);

// GPUs or TPUs. What is said of GPUs alone (shared memory, processes per card) asks for those.
bool holds_accelerators(const Workload& work);

// The pods that form one world with those of this group; nothing where it cannot be known.
std::optional<int64_t> world_pods(const Case& at);
// Processes per pod as they are written: --nproc-per-node, nprocPerNode, slots.
struct Written {
  int64_t value = 0;
  Ref node;                    // the value in the manifest
  const Word* word = nullptr;  // or the word of a command line
};
std::optional<Written> processes_per_pod(const Case& at);
// Processes per pod as they will be: as written, else one per GPU for a launcher, else one.
int64_t likely_processes(const Case& at);
// Loader workers per process as the command line or the environment gives them.
std::optional<Written> loader_workers(const Case& at);

Ref volume_named(const PodGroup& pods, std::string_view name);
// The mount that holds `path`, the innermost one.
Ref mount_of(const Container& container, std::string_view path);
// Where the pods reach their master, as it is written: MASTER_ADDR, --master-addr,
// --rdzv-endpoint without its port. Nothing where it is not literal.
struct MasterAddress {
  std::string host;
  Place place;
};
std::optional<MasterAddress> master_address(const Case& at, Report& report);

// Adds a finding at an option's word or value.
Finding& add_at(Report& report, std::string_view code, const Written& at, std::string message);

}  // namespace shanty::lint
