#include "gang/text.h"

#include <algorithm>

#include "base/signal_name.h"
#include "base/units.h"

namespace shanty::gang {
namespace {

constexpr size_t kMaxListed = 8;
constexpr size_t kMaxErrorInSentence = 200;

}  // namespace

std::string describe_end(const WorkerExit& exit) {
  if (exit.signal == 0) return std::string(kExitedWords) + std::to_string(exit.exit_code);
  return "killed by " + signal_name(exit.signal) + (exit.out_of_memory ? " (out of memory)" : "");
}

std::string describe_failure(const Failure& failure) {
  const std::string place = "node rank " + std::to_string(failure.node_rank) +
                            (failure.node.empty() ? "" : ", " + failure.node);
  std::string text = failure.reason + " (" + place + ")";
  if (failure.rank >= 0) {
    const bool killed = failure.reason.starts_with("killed");
    text = "rank " + std::to_string(failure.rank) + " (" + place + ") " + (killed ? "was " : "") +
           failure.reason;
  }
  if (failure.step != kNoStep) text += " at step " + std::to_string(failure.step);
  if (failure.first_error.empty()) return text;
  return text + ": " + first_line(failure.first_error, kMaxErrorInSentence);
}

std::string describe_duration(Duration duration) { return format_duration(to_seconds(duration)); }

std::string list_node_ranks(const std::vector<int>& node_ranks) {
  std::string text = node_ranks.size() == 1 ? "node rank " : "node ranks ";
  const size_t shown = std::min(node_ranks.size(), kMaxListed);
  for (size_t i = 0; i < shown; ++i) text += (i ? ", " : "") + std::to_string(node_ranks[i]);
  if (shown < node_ranks.size()) {
    text += " and " + std::to_string(node_ranks.size() - shown) + " more";
  }
  return text;
}

std::string clip(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  size_t end = max_bytes;
  const auto continues = [&](size_t i) {
    return (static_cast<unsigned char>(text[i]) & 0xC0u) == 0x80u;
  };
  while (end > 0 && continues(end)) --end;
  return std::string(text.substr(0, end));
}

std::string first_line(std::string_view text, size_t max_bytes) {
  return clip(text.substr(0, text.find_first_of("\r\n")), max_bytes);
}

}  // namespace shanty::gang
