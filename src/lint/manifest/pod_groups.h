#pragma once

#include <vector>

#include "lint/manifest/workload.h"

namespace shanty::lint {

// The groups of equal pods of an object of that kind, each with its containers. Reads what is
// there: an object that is broken or partial yields what can be seen of it.
std::vector<PodGroup> read_pod_groups(const Object& object, WorkloadKind kind);

Container read_container(Ref node, bool is_init);
// Fills spec and containers from the group's template.
void read_pod_spec(PodGroup& group);

}  // namespace shanty::lint
