#include <cstdlib>

#include "doctor/readers/lines.h"
#include "doctor/readers/readers.h"
#include "logs/pattern.h"
#include "logs/prefix.h"
#include "text/utf8.h"

namespace shanty {

void read_py_spy(std::string_view text, const std::string& name, ClusterFacts& facts) {
  const Pattern process(R"~(^Process (?P<pid>\d+):)~");
  const Pattern thread(R"~(^Thread (?:0x[0-9A-Fa-f]+|\d+))~");
  const int rank = read_file_name(name).rank;
  int64_t pid = -1;
  bool in_thread = false;
  for (Lines in(text); in.next();) {
    Captures captures;
    if (process.find(in.line, captures)) {
      pid = std::atoll(std::string(capture(captures, "pid")).c_str());
      in_thread = false;
    } else if (thread.find(in.line, captures)) {
      in_thread = true;
      facts.stacks.push_back(
          {.rank = rank, .pid = pid, .frames = {}, .where = {name, in.number, printable(in.line)}});
    } else if (in_thread && in.line.starts_with("    ")) {
      StackFact& stack = facts.stacks.back();
      if (stack.frames.empty()) stack.where = {name, in.number, printable(trimmed(in.line))};
      stack.frames.push_back(printable(trimmed(in.line)));
    }
  }
}

}  // namespace shanty
