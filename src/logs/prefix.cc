#include "logs/prefix.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "logs/ansi.h"
#include "logs/pattern.h"
#include "logs/stamp.h"
#include "text/json_fields.h"

namespace shanty {
namespace {

constexpr int kMaxJsonDepth = 3;  // a JSON line inside a JSON line
constexpr int kMaxRank = 1'000'000;
constexpr std::string_view kBareNumber = "srun --label";

std::optional<int64_t> to_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void set_rank(int& target, std::string_view text) {
  const auto value = to_number(text);
  if (value && *value >= 0 && *value < kMaxRank) target = static_cast<int>(*value);
}

void set_text(std::string& target, std::string_view text) {
  if (!text.empty()) target = text;
}

// Group 0 of a process group prefix without a GUID is the default group.
void take_group(Prefix& prefix, const Captures& captures) {
  const std::string_view rank = capture(captures, "pgrank");
  if (rank.empty()) return;
  set_rank(prefix.group_rank, rank);
  set_text(prefix.group, capture(captures, "group"));
  if (prefix.group.empty()) prefix.group = capture(captures, "pgid");
}

void take(Prefix& prefix, const Captures& captures, int64_t around_unix_ns) {
  if (const auto time = capture(captures, "time"); !time.empty()) {
    if (const auto when = parse_stamp(time, around_unix_ns)) prefix.unix_ns = *when;
  }
  if (const auto rank = capture(captures, "rank"); !rank.empty()) set_rank(prefix.rank, rank);
  if (const auto rank = capture(captures, "local"); !rank.empty()) {
    set_rank(prefix.local_rank, rank);
  }
  if (const auto pid = to_number(capture(captures, "pid"))) prefix.pid = *pid;
  set_text(prefix.node, capture(captures, "node"));
  set_text(prefix.pod, capture(captures, "pod"));
  set_text(prefix.level, capture(captures, "level"));
  set_text(prefix.source, capture(captures, "source"));
  take_group(prefix, captures);
}

struct CompiledRow {
  std::string_view starts;
  Pattern pattern;
  bool bare_number = false;
};

const std::vector<CompiledRow>& compiled_rows() {
  static const auto* rows = [] {
    auto* made = new std::vector<CompiledRow>;
    for (const PrefixRow& row : prefix_rows()) {
      made->push_back({row.starts, Pattern(row.pattern), row.name == kBareNumber});
    }
    return made;
  }();
  return *rows;
}

// "torch.OutOfMemoryError: " is what happened, not who says it; so is a class without a level,
// "zipfile.BadZipFile: ".
bool names_exception(const Captures& captures) {
  const std::string_view name = capture(captures, "logger");
  if (name.ends_with("Error") || name.ends_with("Exception") || name.ends_with("Exit")) return true;
  const size_t dot = name.rfind('.');
  if (dot == name.npos || !capture(captures, "level").empty()) return false;
  const char first = name[dot + 1];
  return first >= 'A' && first <= 'Z';
}

// A bare number is a label only where nothing else has told the rank; else it is the program's.
bool is_own_number(const CompiledRow& row, const Prefix& prefix) {
  return row.bare_number && prefix.rank >= 0;
}

// "[Rank 3] " after a process group counts inside the group.
bool strip_one(std::string_view& rest, Prefix& prefix, int64_t around_unix_ns) {
  for (const CompiledRow& row : compiled_rows()) {
    if (!row.starts.empty() && row.starts.find(rest.front()) == row.starts.npos) continue;
    if (is_own_number(row, prefix)) continue;
    Captures captures;
    size_t end = 0;
    if (!row.pattern.match_start(rest, captures, end) || end == 0) continue;
    if (names_exception(captures)) continue;
    const int rank_before = prefix.rank;
    take(prefix, captures, around_unix_ns);
    // What only tells that the row fits belongs to the message.
    const std::string_view message = capture(captures, "rest");
    if (!message.empty()) end = static_cast<size_t>(message.data() - rest.data());
    if (rank_before >= 0 || prefix.group_rank >= 0) prefix.rank = rank_before;
    rest.remove_prefix(end);
    return true;
  }
  return false;
}

template <size_t N>
const nlohmann::json* first_field(const nlohmann::json& object, const char* const (&names)[N]) {
  for (const char* name : names) {
    const auto found = object.find(name);
    if (found != object.end() && !found->is_null()) return &*found;
  }
  return nullptr;
}

std::string as_text(const nlohmann::json* value) {
  if (!value) return "";
  if (value->is_string()) return value->get<std::string>();
  if (value->is_number_integer()) return std::to_string(value->get<int64_t>());
  if (value->is_number_float()) return std::to_string(value->get<double>());
  return "";
}

// Fills the prefix from a structured line; false: not one with a message.
bool open_json(std::string_view line, Prefix& prefix, int64_t around_unix_ns,
               std::string& message) {
  if (!line.starts_with('{') || !line.ends_with('}')) return false;
  const auto object = parse_json(line);
  if (!object || !object->is_object()) return false;
  static constexpr const char* kMessage[] = {"log",         "message", "msg",  "MESSAGE",
                                             "textPayload", "event",   "line", "body"};
  static constexpr const char* kTime[] = {
      "time", "timestamp", "ts", "@timestamp", "asctime", "__REALTIME_TIMESTAMP", "t"};
  static constexpr const char* kRank[] = {"rank", "global_rank", "RANK"};
  static constexpr const char* kNode[] = {"node", "host", "hostname", "_HOSTNAME", "node_name"};
  static constexpr const char* kPod[] = {"pod", "pod_name", "podName"};
  static constexpr const char* kLevel[] = {"level", "levelname", "severity", "lvl"};
  static constexpr const char* kPid[] = {"pid", "process", "_PID"};
  const nlohmann::json* text = first_field(*object, kMessage);
  if (!text || !text->is_string()) return false;
  message = text->get<std::string>();
  while (message.ends_with('\n') || message.ends_with('\r')) message.pop_back();
  if (const auto when = parse_stamp(as_text(first_field(*object, kTime)), around_unix_ns)) {
    prefix.unix_ns = *when;
  }
  set_rank(prefix.rank, as_text(first_field(*object, kRank)));
  if (const auto pid = to_number(as_text(first_field(*object, kPid)))) prefix.pid = *pid;
  set_text(prefix.node, as_text(first_field(*object, kNode)));
  set_text(prefix.pod, as_text(first_field(*object, kPod)));
  set_text(prefix.level, as_text(first_field(*object, kLevel)));
  if (const nlohmann::json* inner = json_object(*object, "kubernetes")) {
    set_text(prefix.pod, as_text(first_field(*inner, kPod)));
    set_text(prefix.node, json_string(*inner, "host"));
  }
  return true;
}

// Whatever stands in front, these say who speaks.
constexpr size_t kMaxUnknown = 160;  // bytes in front that nobody knows
constexpr std::string_view kTags[] = {"[rank", "[default", " NCCL ", "]<std", "[pod/", "pid="};

// Where a speaker's tag begins behind a front that no row knows; 0: there is none.
size_t tag_behind(std::string_view line) {
  const std::string_view head = line.substr(0, kMaxUnknown);
  const bool any = std::any_of(std::begin(kTags), std::end(kTags), [head](std::string_view tag) {
    return head.find(tag) != head.npos;
  });
  if (!any) return 0;
  static const auto* tag = new Pattern(
      R"~([\s|>\]](?P<tag>\[rank ?\d+\]:|\[default\d+\]:|\[\d+,\d+\]<std\w+>:|\[pod/[^\]]+\]|\(\w+ (?:rank=\d+ )?pid=\d+|[A-Za-z0-9][\w.-]*:\d+:\d+ \[-?\d+\] (?:\S+:\d+ )?NCCL ))~");
  Captures captures;
  if (!tag->find(head, captures)) return 0;
  return static_cast<size_t>(capture(captures, "tag").data() - line.data());
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
  return text;
}

}  // namespace

Prefix read_prefix(std::string_view line, int64_t around_unix_ns, std::string& buffer) {
  Prefix prefix;
  std::string_view rest = trim(line);
  if (has_ansi(rest)) {
    buffer = without_ansi(rest);
    rest = buffer;
  }
  int json_depth = 0;
  for (int i = 0; i < kMaxPrefixes && !rest.empty(); ++i) {
    std::string message;
    if (json_depth < kMaxJsonDepth && open_json(rest, prefix, around_unix_ns, message)) {
      ++json_depth;
      buffer = has_ansi(message) ? without_ansi(message) : std::move(message);
      rest = buffer;
      continue;
    }
    if (strip_one(rest, prefix, around_unix_ns)) continue;
    const size_t unknown = prefix.rank < 0 && prefix.pid < 0 ? tag_behind(rest) : 0;
    if (unknown == 0) break;
    rest.remove_prefix(unknown);
  }
  const bool default_group =
      prefix.group.empty() || prefix.group == "0" || prefix.group.starts_with("0(");
  if (prefix.rank < 0 && default_group) prefix.rank = prefix.group_rank;
  prefix.message = rest;
  return prefix;
}

NamePrefix read_file_name(std::string_view name) {
  // The order counts as in prefix_rows().
  static const auto* rows = new std::vector<Pattern>([] {
    std::vector<Pattern> made;
    for (
        const char* text :
        {R"(attempt_(?P<generation>\d+)/(?P<local>\d+)/std(?:out|err))",
         R"((?:^|/)gen-(?P<generation>\d+)/rank-(?P<rank>\d+)\.)",
         R"((?:^|[/_.: -])(?:rank|RANK)[-_=]?(?P<rank>\d+)(?:[^\d]|$))",
         R"((?:^|/)(?P<local>\d+)/std(?:out|err)(?:\.log|\.txt)?(?:$|\.))",
         R"((?:^|/)(?P<number>\d{1,5})\.(?:log|out|err|txt)(?:$|\.))",
         R"((?:^|/|dmesg-|describe-|logs?-)(?P<pod>(?:[a-z0-9][\w-]*?-)?(?:master|worker|launcher|trainer|head)-\d+(?:-\d+)*(?:-[a-z0-9]{5})?)(?:[/._]|$))",
         R"((?:^|[/_ ])(?P<node>(?:node|host|gpu|dgx|worker|ip|agent|nid)[-_]?(?:[a-z0-9-]*\d))(?:[/._]|$))"}) {
      made.emplace_back(text);
    }
    return made;
  }());
  NamePrefix out;
  for (const Pattern& row : *rows) {
    Captures captures;
    if (!row.find(name, captures)) continue;
    if (out.rank < 0) set_rank(out.rank, capture(captures, "rank"));
    if (out.number < 0) set_rank(out.number, capture(captures, "number"));
    if (out.local_rank < 0) set_rank(out.local_rank, capture(captures, "local"));
    if (out.generation < 0) set_rank(out.generation, capture(captures, "generation"));
    if (out.pod.empty()) out.pod = capture(captures, "pod");
    if (out.node.empty()) out.node = capture(captures, "node");
  }
  return out;
}

}  // namespace shanty
