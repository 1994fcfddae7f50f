#include "follow/agent_output.h"

namespace shanty::follow {
namespace {

constexpr std::string_view kHead = "shanty ";
constexpr size_t kTimeBytes = 8;  // 04:31:51

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_time(std::string_view text) {
  if (text.size() < kTimeBytes) return false;
  for (size_t i = 0; i < kTimeBytes; ++i) {
    if (i % 3 == 2 ? text[i] != ':' : !is_digit(text[i])) return false;
  }
  return true;
}

// As text/progress.h formats it: a step with numbers, or the state of the coordinator.
bool is_progress(std::string_view text) {
  if (text.starts_with("step ")) return text.size() > 5 && is_digit(text[5]);
  for (const std::string_view state : {"waiting", "running", "restarting", "stopping"}) {
    if (text.starts_with(state) &&
        (text.size() == state.size() || text[state.size()] == ':' || text[state.size()] == ' ')) {
      return true;
    }
  }
  return false;
}

}  // namespace

OutputLine read_output_line(std::string_view line) {
  using From = OutputLine::From;
  if (line.starts_with(kHead)) {
    std::string_view rest = line.substr(kHead.size());
    if (is_time(rest) && rest.substr(kTimeBytes).starts_with("  ")) {
      rest.remove_prefix(kTimeBytes + 2);
      return {is_progress(rest) ? From::kProgress : From::kAgent, rest};
    }
  }
  return {From::kRank, line};
}

}  // namespace shanty::follow
