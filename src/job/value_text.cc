#include <cmath>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/units.h"
#include "job/value.h"

namespace shanty {
namespace {

std::string_view expected_base(KeyType type) {
  switch (type) {
    case KeyType::kSection:
      return "a mapping";
    case KeyType::kList:
      return "a list of mappings";
    case KeyType::kText:
    case KeyType::kTextOrAuto:
      return "text";
    case KeyType::kPath:
      return "an absolute path such as /mnt/data";
    case KeyType::kFlag:
    case KeyType::kFlagOrAuto:
      return "true or false";
    case KeyType::kCount:
    case KeyType::kCountOrAuto:
      return "a whole number";
    case KeyType::kNumber:
      return "a number such as 0.1 or 2e9";
    case KeyType::kBytesOrAuto:
      return "a size such as 64MB or 16Gi";
    case KeyType::kDuration:
    case KeyType::kDurationOrAuto:
      return "a duration such as 90, 30s or 1h30m";
    case KeyType::kBandwidth:
      return "a bandwidth such as 100GB/s or 25Gbit/s";
    case KeyType::kShareOrCount:
      return "a percentage such as 5% or a number of steps";
    case KeyType::kChoice:
      return "one of";
    case KeyType::kTextList:
      return "a list of texts such as [--epochs, 3]";
    case KeyType::kTextMap:
      return "a mapping of names to texts";
    case KeyType::kNodes:
      return "a whole number or {min: N, max: N}";
  }
  return "";
}

// One end of a range, for messages about numbers and amounts alike.
std::string limit_text(KeyType type, double value) {
  const bool is_duration = type == KeyType::kDuration || type == KeyType::kDurationOrAuto;
  if (type == KeyType::kBytesOrAuto) return format_bytes(static_cast<uint64_t>(value));
  if (is_duration) return format_duration(value);
  if (type == KeyType::kBandwidth) return fmt::format("{:g} B/s", value);
  if (type == KeyType::kNumber || value >= 1e6) return fmt::format("{:g}", value);
  return format_count(value);
}

std::string percent_text(double share) {
  for (int digits = 3; digits < 17; ++digits) {
    const std::string text = fmt::format("{:.{}g}%", share * 100, digits);
    const auto back = parse_percent(text);
    if (back.ok() && *back == share) return text;
  }
  return fmt::format("{:.17g}%", share * 100);
}

std::string nodes_text(const NodeRange& nodes) {
  if (nodes.min == nodes.max) return fmt::format("{}", nodes.min);
  return fmt::format("{{min: {}, max: {}}}", nodes.min, nodes.max);
}

struct SlotText {
  std::string operator()(std::monostate) const { return ""; }
  std::string operator()(const std::string* text) const { return *text; }
  std::string operator()(const bool* flag) const { return *flag ? "true" : "false"; }
  std::string operator()(const uint64_t* count) const { return fmt::format("{}", *count); }
  std::string operator()(const double* number) const { return fmt::format("{}", *number); }
  std::string operator()(const NodeRange* nodes) const { return nodes_text(*nodes); }
  std::string operator()(const std::vector<std::string>*) const { return ""; }
  std::string operator()(const EnvMap*) const { return ""; }
  std::string operator()(const std::vector<DataMount>*) const { return ""; }
  std::string operator()(const Warmup* warmup) const {
    return warmup->steps ? fmt::format("{}", *warmup->steps) : percent_text(warmup->share);
  }
  template <typename T>
  std::string operator()(const std::optional<T>* value) const {
    return *value ? (*this)(&**value) : "";
  }
  template <typename Enum>
    requires std::is_enum_v<Enum>
  std::string operator()(const Enum* value) const {
    return std::string(choice_name(*value));
  }
};

}  // namespace

bool accepts_auto(KeyType type) {
  switch (type) {
    case KeyType::kTextOrAuto:
    case KeyType::kFlagOrAuto:
    case KeyType::kCountOrAuto:
    case KeyType::kBytesOrAuto:
    case KeyType::kDurationOrAuto:
      return true;
    case KeyType::kSection:
    case KeyType::kList:
    case KeyType::kText:
    case KeyType::kPath:
    case KeyType::kFlag:
    case KeyType::kCount:
    case KeyType::kNumber:
    case KeyType::kDuration:
    case KeyType::kBandwidth:
    case KeyType::kShareOrCount:
    case KeyType::kChoice:
    case KeyType::kTextList:
    case KeyType::kTextMap:
    case KeyType::kNodes:
      return false;
  }
  return false;
}

std::string range_text(const Key& key) {
  if (key.range.min == 0 && std::isinf(key.range.max)) return "";
  if (std::isinf(key.range.max)) return "at least " + limit_text(key.type, key.range.min);
  return limit_text(key.type, key.range.min) + " to " + limit_text(key.type, key.range.max);
}

std::string expectation(const Key& key, const Slot& slot) {
  std::string text(expected_base(key.type));
  if (key.type == KeyType::kChoice) text += fmt::format(" {}", fmt::join(choice_names(slot), ", "));
  if (key.type == KeyType::kFlagOrAuto) return "true, false or auto";
  if (accepts_auto(key.type)) text += ", or auto";
  return text;
}

std::string slot_text(const Key& key, const Slot& slot) {
  const std::string text = std::visit(SlotText{}, slot);
  return text.empty() && accepts_auto(key.type) ? "auto" : text;
}

}  // namespace shanty
