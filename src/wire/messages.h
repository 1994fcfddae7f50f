#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gang/messages.h"
#include "telemetry/rank_telemetry.h"

namespace shanty::wire {

// The text frames between an agent and the coordinator: JSON, docs/formats/wire.md.

inline constexpr int kVersion = 1;
inline constexpr size_t kMaxMessageBytes = size_t{4} << 20;
inline constexpr size_t kMaxExits = 4096;
inline constexpr size_t kMaxRanksPerNode = 1024;
inline constexpr size_t kMaxNotes = 64;
inline constexpr size_t kMaxNoteBytes = size_t{8} << 10;
inline constexpr size_t kMaxFactsBytes = size_t{64} << 10;
inline constexpr int kMaxRank = 1 << 24;

struct AgentMessage {
  gang::Report report;
  std::vector<RankTelemetry> ranks;
  // One JSON object with what the agent knows of its machine; "" = unchanged.
  std::string facts_json;
  // JSON objects, each one thing that happened on the node, in order.
  std::vector<std::string> notes_json;
};

struct CoordinatorMessage {
  gang::Directive directive;
};

// Never fails, and what it yields can be decoded: text that is too long is cut at a character,
// bytes that are not UTF-8 become U+FFFD, lists that are too long keep their first entries
// (history and notes their last), facts or notes that are not JSON objects within the limits are
// left out. If the whole is beyond kMaxMessageBytes, all texts are cut shorter.
std::string encode(const AgentMessage& message);
std::string encode(const CoordinatorMessage& message);

// Whatever the bytes are, the answer is a message whose every field is within its limits, or an
// error that says which field is not. Unknown fields are ignored. A message of another version
// is an error that names both versions.
Result<AgentMessage> decode_agent_message(std::string_view text);
Result<CoordinatorMessage> decode_coordinator_message(std::string_view text);

}  // namespace shanty::wire
