#include "gang/sim/sim.h"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

namespace shanty::gang::sim {
namespace {

constexpr uint64_t kSchedules = 100'000;

// SHANTY_GANG_SCHEDULES takes the place of the default, for builds without optimisation.
uint64_t schedule_count() {
  const char* count = std::getenv("SHANTY_GANG_SCHEDULES");
  return count != nullptr ? std::stoull(count) : kSchedules;
}

TEST(GangSimulation, InvariantsHoldInRandomSchedules) {
  int outcomes[4] = {};
  const uint64_t count = schedule_count();
  for (uint64_t seed = 1; seed <= count; ++seed) {
    const SimConfig config = random_config(seed);
    const SimResult result = simulate(config);
    ASSERT_EQ(result.violation, "") << explain_violation(config);
    ++outcomes[static_cast<int>(result.outcome)];
  }
  if (count < 1000) return;
  for (const int n : outcomes) EXPECT_GT(n, 0) << "the schedules no longer reach every outcome";
}

TEST(GangSimulation, ASeedIsOneSchedule) {
  SimConfig config = random_config(62);
  config.trace = true;
  EXPECT_EQ(simulate(config).trace, simulate(config).trace);
}

SimConfig healthy_job(int nodes) {
  SimConfig c{.seed = 1, .work_ns = 2'000'000'000};
  c.coordinator.node_count = nodes;
  c.hosts.resize(static_cast<size_t>(nodes));
  // All within one report interval, in an order that is not that of their numbers.
  for (size_t i = 0; i < c.hosts.size(); ++i) {
    c.hosts[i].starts_at_ns = static_cast<int64_t>((i * 7919) % c.hosts.size()) * 40'000;
  }
  return c;
}

TEST(GangSimulation, TenThousandAgentsFormAWorldInOneRoundTrip) {
  constexpr int kNodes = 10'000;
  const SimResult result = simulate(healthy_job(kNodes));
  EXPECT_EQ(result.violation, "");
  EXPECT_EQ(result.outcome, Outcome::kSucceeded);
  EXPECT_EQ(result.generations, 1);
  EXPECT_EQ(result.reports_before_start, 1u) << "an agent had to speak twice before it could start";
  const int64_t formed_ns = result.all_started_ns - result.last_hello_ns;
  EXPECT_LE(formed_ns, 2 * 3'050'000) << "more than one message each way";
  RecordProperty("events", std::to_string(result.events));
}

TEST(GangSimulation, ACoordinatorsDeathCostsAHealthyJobNothing) {
  for (uint64_t variant = 1; variant < 4; ++variant) {
    SimConfig c = healthy_job(8);
    c.chaos_until_ns = 3'000'000'000;
    c.faults = {{.at_ns = 900'000'000,
                 .kind = FaultKind::kCoordinatorDies,
                 .lasts_ns = 500'000'000,
                 .variant = variant}};
    const SimResult result = simulate(c);
    EXPECT_EQ(result.violation, "");
    EXPECT_EQ(result.outcome, Outcome::kSucceeded);
    EXPECT_EQ(result.generations, 1);
  }
}

}  // namespace
}  // namespace shanty::gang::sim
