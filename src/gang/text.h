#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "gang/messages.h"

namespace shanty::gang {

// The words the gang uses for what happened. Pure; shared by agent, coordinator and verdict.

// How describe_end begins for a worker that ended by itself.
inline constexpr std::string_view kExitedWords = "exited with code ";

// "killed by SIGKILL", "killed by SIGKILL (out of memory)", "exited with code 3".
std::string describe_end(const WorkerExit& exit);
// "rank 1 (node rank 0, hostA) was killed by SIGSEGV at step 30: first line of its error".
std::string describe_failure(const Failure& failure);
// "1 h 00 min", for limits in messages.
std::string describe_duration(Duration duration);
// "node rank 3" or "node ranks 1, 3 and 12 more".
std::string list_node_ranks(const std::vector<int>& node_ranks);
// Up to the first line end, at most `max_bytes`, never cutting a UTF-8 character.
std::string first_line(std::string_view text, size_t max_bytes);
// At most `max_bytes`, never cutting a UTF-8 character.
std::string clip(std::string_view text, size_t max_bytes);

}  // namespace shanty::gang
