#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "os/files.h"
#include "telemetry/node_sample.h"

namespace shanty {

// Writes what the node is busy with into the run directory, a line every kEvery.
class NodeRecorder {
 public:
  static constexpr Duration kEvery = std::chrono::seconds(10);
  static constexpr uint64_t kMaxFileBytes = uint64_t{64} << 20;  // four weeks

  // To be called often; looks when it is time. An error is told once, and nothing written after it.
  Status look(const std::string& path, const Clock& clock);

 private:
  Status write(const std::string& path, const NodeSample& sample);

  NodeSampler sampler_;
  std::optional<AppendFile> file_;
  TimePoint next_;
  bool ended_ = false;
};

}  // namespace shanty
