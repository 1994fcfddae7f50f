#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/units.h"
#include "plan/rules.h"

namespace shanty {
namespace {

constexpr double kDayS = 86400;
// Common practice where nothing is measured: 15 to 20 minutes on a stable cluster.
constexpr double kUnmeasuredIntervalS = 900;

std::optional<double> mtbf_s(const Job& job) {
  if (job.failures.mtbf_s) return job.failures.mtbf_s;
  if (job.failures.per_day) return kDayS / *job.failures.per_day;
  return std::nullopt;
}

double rounded(double seconds) {
  return seconds < 100 ? std::round(seconds * 10) / 10 : std::round(seconds);
}

// What checkpoints every `interval_s` and failures between them take from the run, first order.
std::string waste(double interval_s, double cost_s, double mtbf) {
  const double share = cost_s / interval_s + interval_s / (2 * mtbf);
  return fmt::format("checkpoints and lost work take {:.2g} % of the time", share * 100);
}

std::string missing_inputs(const Job& job) {
  std::string missing;
  if (!job.checkpoint.cost_s) missing = "checkpoint.cost";
  if (!mtbf_s(job)) missing += missing.empty() ? "failures.per_day" : " and failures.per_day";
  return missing;
}

}  // namespace

PlanValue plan_checkpoint_interval(const PlanInputs& in) {
  const auto cost_s = in.job.checkpoint.cost_s;
  const auto mtbf = mtbf_s(in.job);
  if (in.job.checkpoint.every_s) {
    const double every_s = *in.job.checkpoint.every_s;
    const std::string effect = cost_s && mtbf ? "; " + waste(every_s, *cost_s, *mtbf) : "";
    return known(every_s, "s", "as checkpoint.every says" + effect);
  }
  if (!cost_s || !mtbf) {
    return known(kUnmeasuredIntervalS, "s",
                 fmt::format("the usual 15 min of a stable cluster; set {} to weigh cost against "
                             "failures",
                             missing_inputs(in.job)));
  }
  const double optimum_s = std::sqrt(2 * *cost_s * *mtbf);
  if (optimum_s <= *cost_s) {
    return known(
        rounded(*cost_s), "s",
        fmt::format("a failure every {} is too often for checkpoints that cost {}: the job "
                    "will hardly advance",
                    format_duration(*mtbf), format_duration(*cost_s)));
  }
  return known(rounded(optimum_s), "s",
               fmt::format("square root of (2 x {:g} s cost x {:g} s between failures) = {:.1f} s "
                           "(Young/Daly, first order); {}",
                           *cost_s, *mtbf, optimum_s, waste(optimum_s, *cost_s, *mtbf)));
}

PlanValue plan_expected_loss(const PlanInputs& in) {
  const double interval_s = in.plan.number("checkpoint_interval_s").value_or(kUnmeasuredIntervalS);
  return known(interval_s / 2, "s",
               fmt::format("a failure loses half an interval on average: {:g} s / 2", interval_s));
}

}  // namespace shanty
