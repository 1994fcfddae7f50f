#include <cmath>
#include <limits>

#include "wire/random_message.h"

namespace shanty::wire {

std::string RandomMessage::text() {
  static const std::string kPieces[] = {"a", "node-7",           "\"", "\\", "\n", "\t", "\x01",
                                        "é", "\xf0\x9f\x9a\xa2", "{",  "]",  " ",  "/",  "\x7f"};
  if (rng_.chance(0.3)) return "";
  std::string out;
  const auto pieces = rng_.below(rng_.chance(0.02) ? 900 : 12);
  for (uint64_t i = 0; i < pieces; ++i) out += kPieces[rng_.below(std::size(kPieces))];
  return out;
}

double RandomMessage::number() {
  switch (rng_.below(6)) {
    case 0:
      return 0;
    case 1:
      return std::numeric_limits<double>::quiet_NaN();
    case 2:
      return -rng_.uniform() * 1e300;
    case 3:
      return std::numeric_limits<double>::denorm_min();
    case 4:
      return static_cast<double>(rng_.below(1000));
    default:
      return rng_.uniform();
  }
}

gang::WorkerExit RandomMessage::exit() {
  return {.local_rank = small(8),
          .rank = small(kMaxRank),
          .exit_code = small(512) - 256,
          .signal = small(65),
          .requested = rng_.chance(0.5),
          .out_of_memory = rng_.chance(0.5),
          .step = step(),
          .phase = text(),
          .exited_unix_ns = time(),
          .error_unix_ns = time(),
          .error = text()};
}

gang::Failure RandomMessage::failure() {
  return {.unix_ns = time(),
          .generation = count(),
          .rank = small(100) - 1,
          .node_rank = small(100) - 1,
          .node = text(),
          .reason = text(),
          .first_error = text(),
          .step = step(),
          .signature = text()};
}

gang::World RandomMessage::world() {
  gang::World world{.generation = count(),
                    .node_rank = small(1000),
                    .node_count = small(1000),
                    .first_rank = small(kMaxRank),
                    .local_size = small(16),
                    .world_size = small(kMaxRank),
                    .master_addr = text(),
                    .master_port = static_cast<uint16_t>(rng_.below(65536)),
                    .restart_count = small(1000),
                    .history = {}};
  world.history.resize(rng_.below(4));
  for (auto& failed : world.history) failed = failure();
  return world;
}

gang::Report RandomMessage::report() {
  gang::Report report;
  report.incarnation = rng_.next() | 1;
  report.seq = count();
  report.epoch = count();
  report.node = text();
  report.wanted_node_rank = small(10) - 1;
  report.slots = small(1024);
  report.address = text();
  report.free_port = static_cast<uint16_t>(rng_.below(65536));
  report.phase = static_cast<gang::AgentPhase>(rng_.below(4));
  report.world = world();
  report.exits.resize(rng_.below(5));
  for (auto& ended : report.exits) ended = exit();
  report.leaving = rng_.chance(0.5);
  report.leave_reason = text();
  return report;
}

RankTelemetry RandomMessage::rank() {
  return {.rank = small(kMaxRank),
          .node_rank = small(1000),
          .local_rank = small(8),
          .pid = small(1 << 22),
          .generation = count(),
          .alive = rng_.chance(0.5),
          .hooked = rng_.chance(0.5),
          .hooks_off_reason = text(),
          .has_step = rng_.chance(0.5),
          .step = count(),
          .total_steps = count(),
          .phase = text(),
          .phase_since_unix_ns = time(),
          .last_step_unix_ns = time(),
          .loss = number(),
          .samples_per_s = number(),
          .step_s = number(),
          .data_s = number(),
          .forward_s = number(),
          .backward_s = number(),
          .optimizer_s = number(),
          .checkpoint_s = number(),
          .collective_s = number(),
          .steps_done = count(),
          .missed_records = count(),
          .checkpoints_saved = count(),
          .rss_bytes = count(),
          .cpu_cores = number(),
          .processes = small(1000)};
}

AgentMessage RandomMessage::agent() {
  AgentMessage message;
  message.report = report();
  message.ranks.resize(rng_.below(9));
  for (auto& telemetry : message.ranks) telemetry = rank();
  if (rng_.chance(0.5)) message.facts_json = R"({"cpus":64,"gpus":[{"name":"é"}],"x":1.5})";
  for (uint64_t i = rng_.below(3); i > 0; --i) {
    message.notes_json.push_back(R"({"kind":"output","n":)" + std::to_string(i) + "}");
  }
  return message;
}

CoordinatorMessage RandomMessage::coordinator() {
  return {.directive = {.epoch = count(),
                        .seq = count(),
                        .to_incarnation = count(),
                        .wish = static_cast<gang::Wish>(rng_.below(4)),
                        .world = world(),
                        .reason = text(),
                        .outcome = static_cast<gang::Outcome>(rng_.below(4)),
                        .stop_signal = 1 + small(64)}};
}

}  // namespace shanty::wire
