#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "job/job.h"

namespace shanty {

// The table of the job file's keys. Parser, "did you mean", serializer, JSON Schema and the
// reference page are all driven by it.

enum class KeyType {
  kSection,  // a mapping of the keys below it
  kList,     // a list of such mappings; their paths are "data[].claim"
  kText,
  kTextOrAuto,
  kPath,  // text that is an absolute path
  kFlag,
  kFlagOrAuto,
  kCount,
  kCountOrAuto,
  kNumber,
  kBytesOrAuto,
  kDuration,
  kDurationOrAuto,
  kBandwidth,
  kShareOrCount,
  kChoice,  // one of the names of an enum
  kTextList,
  kTextMap,
  kNodes,
};

// Where a key's value lives in a Job.
using Slot = std::variant<std::monostate, std::string*, bool*, std::optional<bool>*, uint64_t*,
                          std::optional<uint64_t>*, double*, std::optional<double>*, Warmup*,
                          NodeRange*, std::vector<std::string>*, EnvMap*, std::vector<DataMount>*,
                          Framework*, LrScaling*, Dtype*, Optimizer*, CodeSource*, PullPolicy*>;

struct Range {
  double min = 0;
  double max = std::numeric_limits<double>::infinity();
};

struct Key {
  std::string_view path;
  KeyType type;
  Slot (*slot)(Job&);      // for "data[]..." of the last element
  Range range;             // of numbers, in the field's unit
  std::string_view unset;  // what an absent value means, where no default says it
  std::string_view doc;
};

std::span<const Key> job_keys();

// The keys directly below `section` ("" for the top level), in table order.
std::vector<const Key*> keys_below(std::string_view section);
// The part of a path after its last dot.
std::string_view leaf_of(std::string_view path);

// The words an enum is written with, in the order of its values.
std::span<const std::string_view> choice_names(Framework);
std::span<const std::string_view> choice_names(LrScaling);
std::span<const std::string_view> choice_names(Dtype);
std::span<const std::string_view> choice_names(Optimizer);
std::span<const std::string_view> choice_names(CodeSource);
std::span<const std::string_view> choice_names(PullPolicy);
// The same for the enum a slot points to; empty for other slots.
std::span<const std::string_view> choice_names(const Slot& slot);

template <typename Enum>
std::string_view choice_name(Enum value) {
  return choice_names(value)[static_cast<size_t>(value)];
}

}  // namespace shanty
