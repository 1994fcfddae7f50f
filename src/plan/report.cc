#include "plan/report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "plan/rules.h"

namespace shanty {
namespace {

using Json = nlohmann::ordered_json;

struct ToJson {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(const auto& value) const { return value; }
};

// Memory is told in powers of 1024 where it is one; what a network moves in powers of 1000.
std::string readable_bytes(uint64_t bytes) {
  if (bytes < 1000 || bytes % (1u << 20) == 0) return format_bytes(bytes);
  return decimal_bytes(static_cast<double>(bytes));
}

std::string readable(const PlanValue& value) {
  if (const auto* text = std::get_if<std::string>(&value.value)) return *text;
  if (const auto* count = std::get_if<uint64_t>(&value.value)) {
    return value.unit == "bytes" ? readable_bytes(*count)
                                 : format_count(static_cast<double>(*count));
  }
  if (const auto* number = std::get_if<double>(&value.value)) {
    return value.unit == "s" ? format_duration(*number) : fmt::format("{:.6g}", *number);
  }
  return "unknown";
}

}  // namespace

std::string plan_json(const Plan& plan) {
  Json values = Json::object();
  for (const PlanValue& value : plan.values) {
    values[value.name] = {{"value", std::visit(ToJson{}, value.value)},
                          {"unit", value.unit},
                          {"reason", value.reason}};
  }
  return Json{{"values", std::move(values)}}.dump(2) + "\n";
}

std::string plan_table(const Plan& plan, TableStyle style) {
  Table table{.header = {"name", "value", "reason"}, .rows = {}, .right_aligned = {false, true}};
  for (const PlanValue& value : plan.values) {
    table.rows.push_back({value.name, readable(value), value.reason});
  }
  return format_table(table, style);
}

}  // namespace shanty
