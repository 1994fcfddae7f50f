#pragma once

#include "telemetry/rank_telemetry.h"

namespace shanty {

// Calls `field(name, member)` for every field, so that writing and reading cannot differ.
template <typename Telemetry, typename Field>
void for_each_rank_field(Telemetry& t, Field field) {
  field("rank", t.rank);
  field("node_rank", t.node_rank);
  field("local_rank", t.local_rank);
  field("pid", t.pid);
  field("generation", t.generation);
  field("alive", t.alive);
  field("hooked", t.hooked);
  field("hooks_off_reason", t.hooks_off_reason);
  field("has_step", t.has_step);
  field("step", t.step);
  field("total_steps", t.total_steps);
  field("phase", t.phase);
  field("phase_since_unix_ns", t.phase_since_unix_ns);
  field("last_step_unix_ns", t.last_step_unix_ns);
  field("loss", t.loss);
  field("samples_per_s", t.samples_per_s);
  field("step_s", t.step_s);
  field("data_s", t.data_s);
  field("forward_s", t.forward_s);
  field("backward_s", t.backward_s);
  field("optimizer_s", t.optimizer_s);
  field("checkpoint_s", t.checkpoint_s);
  field("collective_s", t.collective_s);
  field("steps_done", t.steps_done);
  field("missed_records", t.missed_records);
  field("checkpoints_saved", t.checkpoints_saved);
  field("rss_bytes", t.rss_bytes);
  field("cpu_cores", t.cpu_cores);
  field("processes", t.processes);
}

}  // namespace shanty
