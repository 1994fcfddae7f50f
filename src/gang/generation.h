#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "gang/coordinator_turn.h"

namespace shanty::gang {

// The life of one generation: formed, watched, stopped, judged. The functions that return bool
// return true when they moved the job to another phase.

bool form(Turn& t);
bool watch(Turn& t);
bool conclude_stop(Turn& t);
bool finish(Turn& t);

// Reads from a seat holder's last report what its ranks did. Nothing for members without a seat.
void observe_seat(Turn& t, Member& m);
// The node of `m` will not finish its part of the current generation. Nothing when it has.
void lose_seat(Turn& t, Member& m, const std::string& reason, int64_t unix_ns);
// Decides how the job ends and tells everybody.
void end(Turn& t, Outcome outcome, std::string reason,
         const std::optional<Failure>& failure = std::nullopt);

// While a generation runs: when every node must have begun with it; nullopt once they have.
std::optional<TimePoint> start_deadline(const CoordinatorState& s);
// Keeps as many past failures as the restart budget needs, the newest ones.
void trim_history(CoordinatorState& s);
// What the holder of a seat needs to start its workers.
World world_of_seat(const CoordinatorState& s, size_t seat);

}  // namespace shanty::gang
