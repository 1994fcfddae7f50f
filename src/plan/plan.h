#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cluster/cluster.h"
#include "job/job.h"

namespace shanty {

// One number (or word) that follows from the job and the machine, with the reason for it. No
// value means it cannot be known yet; the reason then names the key that would tell.
struct PlanValue {
  std::string name;
  std::variant<std::monostate, uint64_t, double, std::string> value;
  std::string unit;  // "bytes", "s", "steps", ...; empty for words and pure numbers
  std::string reason;
};

struct Plan {
  std::vector<PlanValue> values;

  // Null when there is no value of that name.
  const PlanValue* find(std::string_view name) const;
  // The value as that type; nothing when it is unknown or of another type. `number` takes counts
  // as well.
  std::optional<uint64_t> count(std::string_view name) const;
  std::optional<double> number(std::string_view name) const;
  std::optional<std::string> text(std::string_view name) const;
};

// Derives every value once; whatever acts on a job reads them here. Pure. `job` must have passed
// parse_job.
Plan make_plan(const Job& job, const Cluster& cluster);

}  // namespace shanty
