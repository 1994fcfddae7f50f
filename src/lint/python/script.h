#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lint/syntax/tree.h"

namespace shanty::lint {

// Index into Script::functions; the module's own level is kModule.
using FunctionId = int;
inline constexpr FunctionId kModule = -1;

struct Function {
  NodeId node = kNoNode;  // the function_definition
  std::string_view name;
  std::string_view class_name;  // of the class whose body it stands in, or empty
  std::vector<std::string_view> parameters;
  std::vector<std::string_view> decorators;  // their texts without "@"
  FunctionId outer = kModule;
};

// A call by its callee's name: "torch.distributed.barrier" whatever it was imported as;
// "self.model.eval" where the root is no import; ".item" where the callee hangs on an expression.
struct Call {
  NodeId node = kNoNode;
  std::string name;
  bool imported = false;  // the root of the name is an import
  FunctionId function = kModule;

  std::string_view last() const { return std::string_view(name).substr(name.rfind('.') + 1); }
};

// `target` becomes `value` (kNoNode where that is not to be seen: a loop, a `with`).
struct Assignment {
  std::string_view target;  // "x", "self.x", "args.x"
  NodeId value = kNoNode;
  NodeId node = kNoNode;
  FunctionId function = kModule;
};

// The variable that an assignment to `target` sets: os.environ["MASTER_ADDR"]; else empty.
std::string_view environment_key(std::string_view target);

// What a Python script says, by name: gathered once, asked by all rules.
class Script {
 public:
  explicit Script(SyntaxTree tree);

  const SyntaxTree& tree() const { return tree_; }
  const std::vector<Function>& functions() const { return functions_; }
  const std::vector<Call>& calls() const { return calls_; }
  const std::vector<Assignment>& assignments() const { return assignments_; }
  // The calls whose name is `name`, or whose last part is it where `name` has no dot.
  std::vector<const Call*> calls_to(std::string_view name) const;
  bool calls_any(std::initializer_list<std::string_view> names) const;

  // True when a module is imported whose name is `root` or begins with "root.".
  bool imports(std::string_view root) const;
  // What the script calls an import by ("dist" for "torch.distributed"), or empty.
  std::string_view alias_of(std::string_view name) const;

  FunctionId function_of(NodeId node) const;
  const Call* call_at(NodeId node) const;
  // The dotted name of an expression as in Call, or empty.
  std::string name_of(NodeId expression) const;

  // The value of keyword `name`, or else of the positional argument `position`; kNoNode if neither.
  NodeId argument(const Call& call, std::string_view name, int position = -1) const;
  bool has_splat(const Call& call) const;  // *args or **kwargs
  // Values given to a name that is visible from `from`: of the innermost function that assigns it,
  // else of the module; dotted names are looked up in the whole file.
  std::vector<const Assignment*> assignments_to(std::string_view name, FunctionId from) const;

  // Places that call or hand on a function of the script.
  struct Use {
    NodeId node = kNoNode;
    const Call* call = nullptr;  // when it is a call of it
  };
  std::vector<Use> uses_of(FunctionId function) const;
  // The functions of the script that a call may enter.
  std::vector<FunctionId> targets_of(const Call& call) const;

  // The string, without quotes, of a plain literal; empty for all else.
  std::string_view literal(NodeId string) const;
  bool is_true(NodeId node) const { return tree_.is(node, "true"); }
  // The innermost loop around `node` within its function, or kNoNode.
  NodeId loop_around(NodeId node) const;

 private:
  void gather();
  void add_import(NodeId statement);
  void add_import_from(NodeId statement);
  void add_function(NodeId node);
  void add_call(NodeId node);
  void add_assignment(NodeId node, NodeId left, NodeId right);
  FunctionId enclosing(NodeId node) const;

  SyntaxTree tree_;
  std::map<std::string_view, std::string, std::less<>> imports_;  // alias -> full name
  std::vector<std::string> modules_;                              // as imported, with their names
  std::vector<Function> functions_;
  std::vector<Call> calls_;
  std::vector<Assignment> assignments_;
  std::multimap<std::string_view, size_t> by_target_;                 // into assignments_
  std::multimap<std::string_view, size_t> by_last_;                   // into calls_
  std::multimap<std::string_view, FunctionId> by_name_;               // into functions_
  std::map<std::string_view, FunctionId, std::less<>> constructors_;  // by class
  std::multimap<std::string_view, NodeId> function_names_;  // identifiers that are no callee
};

}  // namespace shanty::lint
