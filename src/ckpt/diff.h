#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "ckpt/reader.h"

namespace shanty::ckpt {

enum class Change {
  kSame,    // bit for bit
  kValues,  // the same type and shape
  kShape,
  kType,
  kOnlyInA,
  kOnlyInB,
};
const char* to_string(Change change);

struct TensorDiff {
  std::string name;
  Change change = Change::kSame;
  std::string what;               // of kShape and kType: "[2, 3] -> [4, 3]"
  uint64_t changed_elements = 0;  // of kValues
  uint64_t elements = 0;
  // Over all elements whose type is a number here; NaN beside a number counts as changed only.
  double max_abs = 0;
  double rms = 0;           // of the difference
  double relative_rms = 0;  // of the difference, over that of A's values; 0 when those are all 0
  bool numeric = false;
};

// Of every tensor of both, by name. Reads all bytes of tensors that both have.
Result<std::vector<TensorDiff>> diff_checkpoints(CheckpointReader& a, CheckpointReader& b,
                                                 int threads);

}  // namespace shanty::ckpt
