#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/fd.h"
#include "telemetry/step_record.h"

namespace shanty {

inline constexpr uint32_t kRingCapacity = 4096;
inline constexpr size_t kRingHeaderBytes = 4096;
inline constexpr size_t kRingBytes = kRingHeaderBytes + 64 * size_t{kRingCapacity};

// A sealed memfd named "shanty-ring" with its header written (docs/formats/step-ring.md). The
// descriptor is close-on-exec; whoever starts the worker clears that in the child.
Result<Fd> create_ring(int rank, uint64_t generation);

// Names of docs/formats/step-ring.md: "data", "forward", ...; "unknown" for any other number.
std::string_view phase_name(uint64_t phase);

// What a worker says about itself in the ring's header.
struct RingStatus {
  uint64_t claim_pid = 0;  // 0 = nobody claimed it
  uint64_t hook_bits = 0;
  uint64_t total_steps = 0;
  uint64_t first_step_plus_one = 0;  // 0 = not named
  std::string torch_version;
  std::string python_version;
  std::string off_reason;  // "" = the hooks work
  uint64_t phase = 0;
  int64_t phase_entered_monotonic_ns = 0;
  uint64_t phase_step = 0;
  uint64_t checkpoints_saved = 0;
  int64_t checkpoint_unix_ns = 0;
  uint64_t checkpoint_step = 0;
  uint64_t checkpoints_loaded = 0;
};

// The agent's end of one worker's ring. The worker may write anything at any time: nothing read
// here is trusted beyond its range. One thread.
class RingReader {
 public:
  // Maps `ring`; the descriptor may be closed after.
  static Result<RingReader> map(int ring);
  RingReader(RingReader&& other) noexcept;
  RingReader& operator=(RingReader&& other) noexcept;
  ~RingReader();

  // Appends the records written since the last call, at most the ring's capacity.
  void drain(std::vector<StepRecord>& out);
  // Records that were overwritten or torn before they could be read.
  uint64_t missed_records() const { return missed_; }
  RingStatus status() const;
  // The claiming pid alone, for a cheap look.
  uint64_t claim_pid() const;
  // Asks the worker to exit with `code` at the end of its current step.
  void command_exit(uint8_t code);

 private:
  explicit RingReader(std::byte* base) : base_(base) {}
  bool read_record(uint64_t index, StepRecord& out) const;

  std::byte* base_ = nullptr;
  uint64_t next_ = 0;
  uint64_t missed_ = 0;
};

}  // namespace shanty
