#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "telemetry/node_sample.h"

namespace shanty {

// Means of what nodes were busy with.
struct SampleMeans {
  NodeSample mean;  // without its time
  size_t samples = 0;
  uint64_t first_line = 0;  // of the first one in its file

  // Takes in those that ended in (begin_ns, end_ns].
  void add(std::span<const NodeSample> samples, int64_t begin_ns, int64_t end_ns);
};

SampleMeans means_of(std::span<const NodeSample> samples, int64_t begin_ns, int64_t end_ns);

// What sets `since` off, as "CPUs are 97 % busy (31 % before, 30 % on other nodes)": worse than
// `before` where that has samples, and worse than `others` where those have. Without either there
// is nothing to tell.
std::vector<std::string> node_changes(const SampleMeans& since, const SampleMeans& before,
                                      const SampleMeans& others);

}  // namespace shanty
