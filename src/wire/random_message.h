#pragma once

#include "base/random.h"
#include "wire/messages.h"

// Random messages within all limits, for the tests of this directory.

namespace shanty::wire {

class RandomMessage {
 public:
  explicit RandomMessage(uint64_t seed) : rng_(seed) {}

  AgentMessage agent();
  CoordinatorMessage coordinator();

 private:
  int small(int bound) { return static_cast<int>(rng_.below(static_cast<uint64_t>(bound))); }
  int64_t time() { return static_cast<int64_t>(rng_.next() >> 1) * (rng_.chance(0.1) ? -1 : 1); }
  uint64_t step() { return rng_.chance(0.2) ? gang::kNoStep : rng_.next() >> rng_.below(64); }
  uint64_t count() { return rng_.next() >> rng_.below(64); }
  std::string text();
  double number();
  gang::WorkerExit exit();
  gang::Failure failure();
  gang::World world();
  gang::Report report();
  RankTelemetry rank();

  Rng rng_;
};

}  // namespace shanty::wire
