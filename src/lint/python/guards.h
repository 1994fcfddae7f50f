#pragma once

#include <map>

#include "lint/python/ranks.h"

namespace shanty::lint {

// Which processes come to a place of the script.
struct Guard {
  bool one = false;  // a single process of the job
  bool one_per_node = false;
  bool others = false;   // all but one (of the job or of each node)
  bool ordered = false;  // all, but not at once: `with main_process_first()`, `with FileLock()`
  NodeId condition = kNoNode;    // what lets them through, for the reader
  bool callers_unknown = false;  // the function is never called here: somebody else decides

  bool some() const { return one || one_per_node || others; }
};

class Guards {
 public:
  Guards(const Script& script, const Ranks& ranks)
      : script_(script), tree_(script.tree()), ranks_(ranks) {}

  // Conditions, early returns and decorators around `node` and around all that call its function.
  Guard of(NodeId node) const { return of(node, 0); }
  // The same without the callers.
  Guard within_function(NodeId node) const;

 private:
  Guard of(NodeId node, int depth) const;
  Guard of_function(FunctionId function, int depth) const;
  void add(Guard& guard, Who who, NodeId condition) const;
  void add_branch(Guard& guard, NodeId above, NodeId below) const;
  void add_early_returns(Guard& guard, NodeId block, NodeId below) const;
  bool leaves(NodeId block) const;
  bool is_run_there(NodeId handed) const;

  const Script& script_;
  const SyntaxTree& tree_;
  const Ranks& ranks_;
  mutable std::map<FunctionId, Guard> of_functions_;
};

}  // namespace shanty::lint
