#include "follow/log_tail.h"

#include <algorithm>

namespace shanty::follow {
namespace {

constexpr size_t kStampPrefix = 20;  // "2026-11-30T04:31:51."

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "Z " or "+08:00 ": kubelets tell the time of their node's zone.
size_t zone_bytes(std::string_view text) {
  if (text.starts_with("Z ")) return 2;
  constexpr std::string_view kShape = "+dd:dd ";
  if (text.size() < kShape.size() || (text[0] != '+' && text[0] != '-')) return 0;
  for (size_t i = 1; i < kShape.size(); ++i) {
    if (kShape[i] == 'd' ? !is_digit(text[i]) : text[i] != kShape[i]) return 0;
  }
  return kShape.size();
}

// "2026-11-30T04:31:51.123456789Z " at the start of a line; 0 = none.
size_t stamp_bytes(std::string_view line) {
  constexpr std::string_view kShape = "dddd-dd-ddTdd:dd:dd.";
  if (line.size() < kStampPrefix) return 0;
  for (size_t i = 0; i < kShape.size(); ++i) {
    if (kShape[i] == 'd' ? !is_digit(line[i]) : line[i] != kShape[i]) return 0;
  }
  size_t at = kStampPrefix;
  while (at < line.size() && is_digit(line[at])) ++at;
  const size_t zone = zone_bytes(line.substr(at));
  return zone > 0 ? at + zone : 0;
}

}  // namespace

void LogTail::begin_again() {
  partial_.clear();
  to_skip_ = told_;
  read_at_last_ = 0;
}

void LogTail::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const size_t room = kMaxLineBytes - partial_.size();
    if (end != std::string_view::npos && end <= room) {
      partial_.append(bytes.substr(0, end));
      bytes.remove_prefix(end + 1);
      take(partial_);
      partial_.clear();
    } else {
      const size_t taken = std::min(room, bytes.size());
      partial_.append(bytes.substr(0, taken));
      bytes.remove_prefix(taken);
      if (partial_.size() < kMaxLineBytes) continue;
      take(partial_);
      partial_.clear();
    }
  }
}

void LogTail::take(std::string_view line) {
  const size_t stamp = stamp_bytes(line);
  if (stamp > 0) {
    const std::string_view time = line.substr(0, stamp);
    if (to_skip_ > 0) {  // until something comes that was not handed out before the break
      if (time < last_stamp_) return;
      if (time == last_stamp_ && ++read_at_last_ <= told_at_last_) return;
    }
    to_skip_ = 0;
    told_at_last_ = time == last_stamp_ ? told_at_last_ + 1 : 1;
    last_stamp_ = time;
    line.remove_prefix(stamp);
  } else if (to_skip_ > 0) {
    --to_skip_;
    return;
  }
  ++told_;
  on_line_(line);
}

void LogTail::finish() {
  if (!partial_.empty()) take(partial_);
  partial_.clear();
}

}  // namespace shanty::follow
