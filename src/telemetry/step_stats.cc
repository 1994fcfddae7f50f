#include "telemetry/step_stats.h"

#include <cmath>
#include <limits>

namespace shanty {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr double kUsPerSecond = 1e6;

struct Sums {
  double step = 0;  // of all records
  double timed_step = 0, data = 0, forward = 0, backward = 0, optimizer = 0, collective = 0;
  double checkpoint = 0;
  double samples = 0, sampled_steps = 0;
};

Sums add_up(const std::deque<StepRecord>& records) {
  Sums sums;
  for (const StepRecord& record : records) {
    sums.step += record.step_us / kUsPerSecond;
    sums.checkpoint += record.checkpoint_us / kUsPerSecond;
    if (!record.only_counted() || !std::isnan(record.samples)) {
      sums.samples += static_cast<double>(record.samples);  // NaN stays NaN
      ++sums.sampled_steps;
    }
    if (record.only_counted()) continue;
    sums.timed_step += record.step_us / kUsPerSecond;
    sums.data += record.data_us / kUsPerSecond;
    sums.forward += record.forward_us / kUsPerSecond;
    sums.backward += record.backward_us / kUsPerSecond;
    sums.optimizer += record.optimizer_us / kUsPerSecond;
    sums.collective += record.collective_us / kUsPerSecond;
  }
  return sums;
}

}  // namespace

void StepStats::add(std::span<const StepRecord> records) {
  for (const StepRecord& record : records) {
    window_.push_back(record);
    last_ = record;
    ++steps_done_;
    if (!std::isnan(record.loss)) {
      last_loss_ = record.loss;
      has_loss_ = true;
    }
  }
  while (window_.size() > kMaxWindowRecords) window_.pop_front();
}

void StepStats::drop_old(int64_t now_unix_ns) {
  while (window_.size() > 1 && now_unix_ns - window_.front().end_unix_ns > kWindow.count()) {
    window_.pop_front();
  }
}

void StepStats::fill(RankTelemetry& telemetry, int64_t now_unix_ns) {
  drop_old(now_unix_ns);
  telemetry.has_step = has_step();
  telemetry.steps_done = steps_done_;
  telemetry.loss = has_loss_ ? static_cast<double>(last_loss_) : kUnknown;
  telemetry.samples_per_s = kUnknown;
  if (window_.empty()) return;
  telemetry.step = last_.step;
  telemetry.last_step_unix_ns = last_.end_unix_ns;
  const Sums sums = add_up(window_);
  const auto count = static_cast<double>(window_.size());
  telemetry.step_s = sums.step / count;
  telemetry.checkpoint_s = sums.checkpoint / count;
  // The parts of the timed steps, as shares of all.
  const double share = sums.timed_step > 0 ? telemetry.step_s / sums.timed_step : 0;
  telemetry.data_s = sums.data * share;
  telemetry.forward_s = sums.forward * share;
  telemetry.backward_s = sums.backward * share;
  telemetry.optimizer_s = sums.optimizer * share;
  telemetry.collective_s = sums.collective * share;
  if (sums.step > 0 && sums.sampled_steps > 0) {
    telemetry.samples_per_s = sums.samples / sums.sampled_steps / telemetry.step_s;
  }
}

void fill_from_ring(const RingStatus& status, TimePoint now, int64_t now_unix_ns,
                    RankTelemetry& telemetry) {
  telemetry.hooked = status.claim_pid != 0;
  telemetry.hooks_off_reason = status.off_reason;
  telemetry.total_steps = status.total_steps;
  telemetry.phase = phase_name(status.phase);
  // Records of short steps are written some together: of a worker that then hangs, the last ones
  // never come.
  if (telemetry.has_step && status.phase_step > 0) telemetry.step = status.phase_step - 1;
  telemetry.checkpoints_saved = status.checkpoints_saved;
  telemetry.phase_since_unix_ns = 0;
  const int64_t entered = status.phase_entered_monotonic_ns;
  // A worker may write anything: a moment that is not in the past is not believed.
  if (entered > 0 && entered <= now.ns) {
    telemetry.phase_since_unix_ns = now_unix_ns - (now.ns - entered);
  }
  // A step that is only counted does not say when; it began where the one before ended.
  if (entered == 0) telemetry.phase_since_unix_ns = telemetry.last_step_unix_ns;
}

}  // namespace shanty
