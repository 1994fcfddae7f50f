#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "causes/finding.h"

namespace shanty {

// One step of a stretch of training, as records or a log tell it. NaN and 0 are unknown.
struct ResumePoint {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  uint64_t step = 0;
  double loss = kUnknown;
  double lr = kUnknown;
  double epoch = kUnknown;
  uint64_t samples_hash = 0;
  uint64_t line = 0;
};

// A stretch of training between two starts.
struct Stretch {
  std::string title;                // "generation 2"
  std::string file;                 // for evidence
  bool counted_from_start = false;  // its step numbers count from the beginning of the job
  std::vector<ResumePoint> points;  // in order
  int world_size = 0;               // 0 = unknown
  double batch = 0;                 // samples of one step, all ranks; 0 = unknown
  std::map<std::string, std::string> versions;
  bool has_checkpoint = false;  // one was saved in this stretch
  uint64_t checkpoint_step = 0;
};

inline constexpr size_t kMinResumePoints = 5;  // losses on each side, fewer say nothing
inline constexpr size_t kResumeWindow = 20;    // that are compared

// What is not as it should be where `after` goes on with what `before` did. `first` is the job's
// first stretch (it may be `before`): how the beginning looks.
std::vector<Finding> audit_resume(const Stretch& first, const Stretch& before,
                                  const Stretch& after);

// Each stretch against the one before it.
std::vector<Finding> audit_resumes(std::span<const Stretch> stretches);

}  // namespace shanty
