#pragma once

#include <set>
#include <string_view>

#include "lint/python/script.h"

namespace shanty::lint {

// What a number in a training script says about the process that reads it.
enum class RankKind {
  kUnknown,
  kGlobal,     // RANK: unlike on every process
  kLocal,      // LOCAL_RANK: unlike on the processes of one node, the same on every node
  kSpawn,      // the index that mp.spawn hands in: local, and global while there is one node
  kNode,       // the node's number
  kWorld,      // WORLD_SIZE
  kLocalWorld  // processes or GPUs of one node
};

struct RankValue {
  RankKind kind = RankKind::kUnknown;
  bool proven = false;  // seen in the script; else its name says so
};

// Which ranks a condition lets through.
enum class Who {
  kAny,  // says nothing of ranks
  kOne,  // one process of the whole job
  kOnePerNode,
  kAllButOne,
  kAllButOnePerNode
};

// What holds where a condition is true and where it is false.
struct Split {
  Who if_true = Who::kAny;
  Who if_false = Who::kAny;
};

// Reads ranks and conditions on ranks out of expressions: through names, attributes, functions of
// the script and their callers, as far as a bounded look goes. kUnknown and kAny where it is not
// sure, or where two answers contradict each other.
class Ranks {
 public:
  explicit Ranks(const Script& script) : script_(script), tree_(script.tree()) {}

  RankValue value(NodeId expression) const;
  Split split(NodeId condition) const;

 private:
  RankValue value(NodeId expression, int depth) const;
  RankValue of_name(NodeId name, int depth) const;
  RankValue of_call(NodeId call, int depth) const;
  RankValue of_parameter(std::string_view name, FunctionId function, int depth) const;
  bool is_parameter(std::string_view name, FunctionId function) const;
  bool is_spawned(NodeId name, int depth) const;
  RankValue of_process(NodeId target, int position, int depth) const;
  RankValue of_arithmetic(NodeId expression, int depth) const;
  RankValue of_environment(NodeId key) const;
  RankValue join(const std::vector<NodeId>& values, int depth) const;
  Split split(NodeId condition, int depth) const;
  Split of_comparison(NodeId comparison, int depth) const;
  Split of_bool(NodeId expression, int depth) const;
  Split of_named_flag(NodeId name, int depth) const;
  Split join_splits(const std::vector<NodeId>& values, int depth) const;
  std::vector<NodeId> returned_by(FunctionId function) const;
  bool is_constant(NodeId node) const;
  bool is_about_being_distributed(NodeId node) const;

  const Script& script_;
  const SyntaxTree& tree_;
  mutable size_t steps_ = 0;  // of the question being answered
};

}  // namespace shanty::lint
