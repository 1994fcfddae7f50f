#include <cstdlib>

#include "doctor/readers/lines.h"
#include "doctor/readers/readers.h"
#include "logs/pattern.h"
#include "logs/prefix.h"
#include "text/utf8.h"

namespace shanty {

void read_py_spy(std::string_view text, const std::string& name, ClusterFacts& facts) {
  const Pattern process(R"~(^Process (?P<pid>\d+):)~");
  const Pattern thread(R"~(^\s*Thread (?:0x[0-9A-Fa-f]+|\d+))~");
  const Pattern of_rank(R"~((?i)^[^()]{0,40}\brank[ _:=#-]{0,2}(?P<rank>\d{1,6})\b[^()]{0,20}$)~");
  const NamePrefix place = read_file_name(name);
  int rank = place.rank >= 0 ? place.rank : place.number;
  int64_t pid = -1;
  bool in_thread = false;
  for (Lines in(text); in.next();) {
    Captures captures;
    if (process.find(in.line, captures)) {
      pid = std::atoll(std::string(capture(captures, "pid")).c_str());
      in_thread = false;
    } else if (!in_thread && of_rank.find(in.line, captures)) {
      // What people write above a stack that they paste.
      rank = std::atoi(std::string(capture(captures, "rank")).c_str());
    } else if (thread.find(in.line, captures)) {
      in_thread = true;
      facts.stacks.push_back(
          {.rank = rank, .pid = pid, .frames = {}, .where = {name, in.number, printable(in.line)}});
    } else if (in_thread && in.line.starts_with("    ")) {
      StackFact& stack = facts.stacks.back();
      if (stack.frames.empty()) stack.where = {name, in.number, printable(trimmed(in.line))};
      stack.frames.push_back(printable(trimmed(in.line)));
    } else if (trimmed(in.line).empty()) {
      in_thread = false;
    }
  }
}

}  // namespace shanty
