#include "follow/agent_output.h"

#include <charconv>
#include <optional>

namespace shanty::follow {
namespace {

constexpr std::string_view kHead = "shanty ";
constexpr std::string_view kRanksHead = "ranks {";
constexpr size_t kMaxRanksOfLine = 1 << 20;
constexpr size_t kTimeBytes = 8;  // 04:31:51

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// What is no digit must stand as it is: "0000-00-00 00:00:00,000".
bool has_shape(std::string_view text, std::string_view shape) {
  if (text.size() < shape.size()) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (is_digit(shape[i]) ? !is_digit(text[i]) : text[i] != shape[i]) return false;
  }
  return true;
}

// "2026-11-30 23:43:41,271\tSUCC scripts.py:1251 -- Ray runtime started.", as Ray's command prints,
// and what KubeRay's shell says before it.
std::optional<std::string_view> read_ray_line(std::string_view line) {
  constexpr std::string_view kTime = "0000-00-00 00:00:00,000\t";
  constexpr std::string_view kMessage = " -- ";
  if (line.starts_with("/bin/bash: line ") && line.find(": ulimit: ") != line.npos)
    return std::string_view();
  if (!has_shape(line, kTime)) return {};
  line.remove_prefix(kTime.size());
  const size_t blank = line.find(' ');
  const size_t message = line.find(kMessage);
  if (blank == line.npos || message == line.npos || blank > message) return {};
  const std::string_view level = line.substr(0, blank);
  const std::string_view place = line.substr(blank + 1, message - blank - 1);
  if (place.find(".py:") == place.npos || place.find(' ') != place.npos) return {};
  for (const std::string_view routine : {"INFO", "SUCC", "VINFO", "VVINFO", "VVVINFO"}) {
    if (level == routine) return std::string_view();
  }
  for (const std::string_view grave : {"WARNING", "WARN", "ERROR", "ERR", "PANIC", "CRITICAL"}) {
    if (level == grave) return line.substr(message + kMessage.size());
  }
  return {};
}

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
      if (rest.starts_with(kRanksHead)) {
        return {From::kRanks, rest.substr(kRanksHead.size() - 1)};
      }
      return {is_progress(rest) ? From::kProgress : From::kAgent, rest};
    }
  }
  if (const auto of_ray = read_ray_line(line)) return {From::kRay, *of_ray};
  return {From::kRank, line};
}

std::vector<int> ranks_of_line(std::string_view line) {
  const size_t end = line.find("] ");
  if (!line.starts_with('[') || end == line.npos) return {};
  std::string_view head = line.substr(1, end - 1);
  const size_t colon = head.find(" ranks: ");
  if (head.starts_with("rank ")) {
    head.remove_prefix(std::string_view("rank ").size());
  } else if (colon != head.npos && head.find_first_not_of("0123456789") == colon) {
    head.remove_prefix(colon + std::string_view(" ranks: ").size());
  } else {
    return {};
  }
  std::vector<int> ranks;
  while (!head.empty()) {
    int first = 0;
    const auto number = std::from_chars(head.data(), head.data() + head.size(), first);
    if (number.ec != std::errc()) return {};
    head.remove_prefix(static_cast<size_t>(number.ptr - head.data()));
    int last = first;
    if (head.starts_with('-')) {
      const auto other = std::from_chars(head.data() + 1, head.data() + head.size(), last);
      if (other.ec != std::errc()) return {};
      head.remove_prefix(static_cast<size_t>(other.ptr - head.data()));
    }
    if (first < 0 || last < first ||
        static_cast<size_t>(last) - static_cast<size_t>(first) + ranks.size() > kMaxRanksOfLine) {
      return {};
    }
    for (int rank = first; rank <= last; ++rank) ranks.push_back(rank);
    if (!head.empty() && !head.starts_with(',')) return {};
    if (!head.empty()) head.remove_prefix(1);
  }
  return ranks;
}

}  // namespace shanty::follow
