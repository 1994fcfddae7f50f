#include "ckpt/diff.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ckpt/blocks.h"
#include "ckpt/numbers.h"

namespace shanty::ckpt {
namespace {

struct Sums {
  double squares_a = 0;
  double squares_difference = 0;
};

void compare_bytes(std::string_view a, std::string_view b, uint64_t element_bytes,
                   NumberReader read, TensorDiff& diff, Sums& sums) {
  for (size_t at = 0; at + element_bytes <= a.size(); at += element_bytes) {
    const bool differs = std::memcmp(a.data() + at, b.data() + at, element_bytes) != 0;
    if (differs) ++diff.changed_elements;
    if (read == nullptr) continue;
    const double x = read(a.data() + at);
    if (std::isfinite(x)) sums.squares_a += x * x;
    if (!differs) continue;
    const double difference = read(b.data() + at) - x;
    if (!std::isfinite(difference)) continue;
    diff.max_abs = std::max(diff.max_abs, std::abs(difference));
    sums.squares_difference += difference * difference;
  }
}

Status compare_values(CheckpointReader& a, CheckpointReader& b, int threads, TensorDiff& diff) {
  const StoredTensor& tensor = a.manifest().tensors.at(diff.name);
  const NumberReader read = number_reader(tensor.dtype);
  diff.numeric = read != nullptr;
  diff.elements = TRY(element_count(tensor.shape));
  Sums sums;
  std::vector<char> other;
  for (const Box& block : blocks_of(tensor)) {
    const uint64_t bytes = TRY(element_count(block.shape)) * tensor.element_bytes;
    std::vector<char> mine(bytes);
    other.resize(bytes);
    TRY_STATUS(a.read({{.name = diff.name, .boxes = {block}, .out = mine.data()}}, threads));
    TRY_STATUS(b.read({{.name = diff.name, .boxes = {block}, .out = other.data()}}, threads));
    compare_bytes({mine.data(), bytes}, {other.data(), bytes}, tensor.element_bytes, read, diff,
                  sums);
  }
  if (diff.changed_elements > 0) diff.change = Change::kValues;
  const auto count = static_cast<double>(std::max<uint64_t>(1, diff.elements));
  diff.rms = std::sqrt(sums.squares_difference / count);
  if (sums.squares_a > 0) diff.relative_rms = std::sqrt(sums.squares_difference / sums.squares_a);
  return {};
}

}  // namespace

const char* to_string(Change change) {
  switch (change) {
    case Change::kSame:
      return "same";
    case Change::kValues:
      return "values";
    case Change::kShape:
      return "shape";
    case Change::kType:
      return "type";
    case Change::kOnlyInA:
      return "only in A";
    case Change::kOnlyInB:
      return "only in B";
  }
  return "?";
}

Result<std::vector<TensorDiff>> diff_checkpoints(CheckpointReader& a, CheckpointReader& b,
                                                 int threads) {
  const auto& in_a = a.manifest().tensors;
  const auto& in_b = b.manifest().tensors;
  std::set<std::string> names;
  for (const auto& [name, tensor] : in_a) names.insert(name);
  for (const auto& [name, tensor] : in_b) names.insert(name);
  std::vector<TensorDiff> diffs;
  for (const std::string& name : names) {
    TensorDiff diff{.name = name};
    const auto first = in_a.find(name);
    const auto second = in_b.find(name);
    if (second == in_b.end()) {
      diff.change = Change::kOnlyInA;
    } else if (first == in_a.end()) {
      diff.change = Change::kOnlyInB;
    } else if (first->second.dtype != second->second.dtype) {
      diff.change = Change::kType;
      diff.what = first->second.dtype + " -> " + second->second.dtype;
    } else if (first->second.shape != second->second.shape) {
      diff.change = Change::kShape;
      diff.what = fmt::format("[{}] -> [{}]", fmt::join(first->second.shape, ", "),
                              fmt::join(second->second.shape, ", "));
    } else {
      TRY_STATUS(compare_values(a, b, threads, diff));
    }
    diffs.push_back(std::move(diff));
  }
  return diffs;
}

}  // namespace shanty::ckpt
