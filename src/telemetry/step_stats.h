#pragma once

#include <cstdint>
#include <deque>
#include <span>

#include "base/clock.h"
#include "telemetry/rank_telemetry.h"
#include "telemetry/ring_reader.h"
#include "telemetry/step_record.h"

namespace shanty {

// Averages over one rank's recent steps.
class StepStats {
 public:
  static constexpr Duration kWindow = std::chrono::seconds(10);
  static constexpr size_t kMaxWindowRecords = 16 * 1024;

  void add(std::span<const StepRecord> records);
  // Fills the fields of `telemetry` that come from step records.
  void fill(RankTelemetry& telemetry, int64_t now_unix_ns);
  bool has_step() const { return steps_done_ > 0; }
  uint64_t last_step() const { return last_.step; }

 private:
  void drop_old(int64_t now_unix_ns);

  std::deque<StepRecord> window_;
  StepRecord last_;
  uint64_t steps_done_ = 0;
  float last_loss_ = 0;
  bool has_loss_ = false;
};

// Fills the fields that come from the ring's header, after `fill`. `now` and `now_unix_ns` are the
// same moment.
void fill_from_ring(const RingStatus& status, TimePoint now, int64_t now_unix_ns,
                    RankTelemetry& telemetry);

}  // namespace shanty
