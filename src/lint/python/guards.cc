#include "lint/python/guards.h"

#include <algorithm>
#include <optional>

namespace shanty::lint {

namespace {

constexpr int kMaxCallers = 8;          // levels of functions looked up through
constexpr size_t kMaxStatements = 400;  // before a place in one block

// Functions that nobody in the file calls but that every process enters all the same.
bool is_entry(const Function& function) {
  static constexpr std::string_view kEntries[] = {"main",          "main_worker", "train",
                                                  "train_worker",  "run",         "worker",
                                                  "training_loop", "train_func",  "train_fn"};
  return function.class_name.empty() && function.outer == kModule &&
         std::count(std::begin(kEntries), std::end(kEntries), function.name) != 0;
}

}  // namespace

void Guards::add(Guard& guard, Who who, NodeId condition) const {
  switch (who) {
    case Who::kAny:
      return;
    case Who::kOne:
      guard.one = true;
      break;
    case Who::kOnePerNode:
      guard.one_per_node = true;
      break;
    case Who::kAllButOne:
    case Who::kAllButOnePerNode:
      guard.others = true;
      break;
  }
  guard.condition = condition;
}

// True when control never runs past the end of `block`.
bool Guards::leaves(NodeId block) const {
  NodeId last = kNoNode;
  for (const NodeId statement : tree_.children(block)) last = statement;
  if (last == kNoNode) return false;
  const std::string_view kind = tree_.kind(last);
  if (kind == "return_statement" || kind == "continue_statement" || kind == "break_statement" ||
      kind == "raise_statement") {
    return true;
  }
  const Call* call = script_.call_at(tree_.first_child(last));
  return call != nullptr && (call->name == "sys.exit" || call->name == "exit");
}

void Guards::add_branch(Guard& guard, NodeId above, NodeId below) const {
  const std::string_view kind = tree_.kind(above);
  if (kind == "if_statement") {
    const NodeId condition = tree_.child(above, "condition");
    if (tree_.in_field(below, "consequence")) {
      add(guard, ranks_.split(condition).if_true, condition);
    } else if (tree_.in_field(below, "alternative")) {
      add(guard, ranks_.split(condition).if_false, condition);
    }
  }
  if ((kind == "elif_clause" || kind == "while_statement") &&
      (tree_.in_field(below, "consequence") || tree_.in_field(below, "body"))) {
    const NodeId condition = tree_.child(above, "condition");
    add(guard, ranks_.split(condition).if_true, condition);
  }
  if (kind == "conditional_expression") {
    const std::vector<NodeId> parts = tree_.children(above);
    if (parts.size() != 3) return;
    if (below == parts[0]) add(guard, ranks_.split(parts[1]).if_true, parts[1]);
    if (below == parts[2]) add(guard, ranks_.split(parts[1]).if_false, parts[1]);
  }
  if (kind == "boolean_operator" && tree_.in_field(below, "right")) {
    const NodeId left = tree_.child(above, "left");
    const bool both = tree_.text(tree_.child(above, "operator")) == "and";
    add(guard, both ? ranks_.split(left).if_true : ranks_.split(left).if_false, left);
  }
  if (kind == "with_statement" && tree_.in_field(below, "body")) {
    const std::string_view head =
        tree_.source().substr(tree_.begin(above), tree_.begin(below) - tree_.begin(above));
    for (const std::string_view word : {"first", "FileLock", "filelock", "file_lock"}) {
      guard.ordered |= head.find(word) != std::string_view::npos;
    }
  }
}

// `if rank != 0: return` lets only rank 0 past.
void Guards::add_early_returns(Guard& guard, NodeId block, NodeId below) const {
  size_t seen = 0;
  for (NodeId at = tree_.first_child(block); at != kNoNode && at < below;
       at = tree_.next_sibling(at)) {
    if (++seen > kMaxStatements) return;
    if (!tree_.is(at, "if_statement") || tree_.child(at, "alternative") != kNoNode) continue;
    if (!leaves(tree_.child(at, "consequence"))) continue;
    const NodeId condition = tree_.child(at, "condition");
    add(guard, ranks_.split(condition).if_false, condition);
  }
}

Guard Guards::within_function(NodeId node) const {
  Guard guard;
  NodeId below = node;
  for (NodeId at = tree_.parent(node); at != kNoNode; at = tree_.parent(at)) {
    add_branch(guard, at, below);
    if (tree_.is(at, "block") || tree_.is(at, "module")) add_early_returns(guard, at, below);
    if (tree_.is(at, "function_definition")) {
      const FunctionId id = script_.function_of(below);
      for (const std::string_view decorator :
           script_.functions()[static_cast<size_t>(id)].decorators) {
        for (const std::string_view word : {"zero", "main_process", "master", "rank0"}) {
          guard.one |= decorator.find(word) != std::string_view::npos;
        }
      }
      break;
    }
    below = at;
  }
  return guard;
}

// Whether the call that a function is handed to runs it: mp.spawn(worker), fabric.launch(main),
// Process(target=run). Others may keep it, look at its signature, or call it somewhere else.
bool Guards::is_run_there(NodeId handed) const {
  const Call* taker = script_.call_at(tree_.ancestor(handed, "call"));
  if (taker == nullptr) return false;
  for (const std::string_view name : {"spawn", "start_processes", "launch", "notebook_launcher",
                                      "Process", "Thread", "run", "submit", "elastic_launch"}) {
    if (taker->last() == name) return true;
  }
  return taker->last().ends_with("Trainer");
}

Guard Guards::of(NodeId node, int depth) const {
  Guard guard = within_function(node);
  const FunctionId function = script_.function_of(node);
  if (function == kModule) return guard;
  const Guard above = of_function(function, depth);
  if (guard.condition == kNoNode) guard.condition = above.condition;
  guard.one |= above.one;
  guard.one_per_node |= above.one_per_node;
  guard.others |= above.others;
  guard.ordered |= above.ordered;
  guard.callers_unknown = above.callers_unknown;
  return guard;
}

// What holds for every caller.
Guard Guards::of_function(FunctionId function, int depth) const {
  const auto known = of_functions_.find(function);
  if (known != of_functions_.end()) return known->second;
  Guard unknown;
  unknown.callers_unknown = true;
  if (depth >= kMaxCallers) return unknown;
  of_functions_[function] = unknown;  // ends recursion
  std::optional<Guard> all;
  for (const Script::Use& use : script_.uses_of(function)) {
    if (script_.function_of(use.node) == function) continue;
    const Guard one =
        use.call != nullptr || is_run_there(use.node) ? of(use.node, depth + 1) : unknown;
    if (!all) {
      all = one;
      continue;
    }
    all->one &= one.one;
    all->one_per_node &= one.one_per_node;
    all->others &= one.others;
    all->ordered &= one.ordered;
    // One caller that is known to let all processes through is enough.
    all->callers_unknown &= one.callers_unknown;
  }
  if (is_entry(script_.functions()[static_cast<size_t>(function)])) unknown.callers_unknown = false;
  return of_functions_[function] = all.value_or(unknown);
}

}  // namespace shanty::lint
