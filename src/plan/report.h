#pragma once

#include <string>

#include "plan/plan.h"
#include "text/table.h"

namespace shanty {

// {"values": {NAME: {"value": ..., "unit": ..., "reason": ...}}}; unknown values are null.
std::string plan_json(const Plan& plan);

// Name, value as people read it, reason.
std::string plan_table(const Plan& plan, TableStyle style);

}  // namespace shanty
