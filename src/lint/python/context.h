#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "causes/finding.h"
#include "lint/python/guards.h"
#include "lint/python/ranks.h"
#include "lint/python/script.h"

namespace shanty::lint {

// What kind of training script it is, found once for all rules.
struct ScriptFacts {
  bool trains = false;       // runs backward passes or hands a model to a trainer
  bool distributed = false;  // forms a process group, or reads ranks
  bool alone = false;        // a group of one, for a test or a measurement: not distributed
  bool ddp = false;
  bool fsdp = false;
  bool gpu = false;      // moves something to CUDA
  bool spawns = false;   // mp.spawn, or processes of its own
  bool resumes = false;  // loads a checkpoint into a model and an epoch, a step or an optimizer
  // A framework that picks devices and wraps models by itself.
  bool managed = false;
  // Accelerate, DeepSpeed or Ray Train around a loop of the script's own: what it loads and saves
  // with torch is its own affair. A trainer does that too.
  bool own_loop = false;
  bool trainer() const { return managed && !own_loop; }
  bool xla = false;
};

// What a rule sees and where it puts what it finds.
class Context {
 public:
  Context(const Script& script, const std::string& file);

  const Script& script;
  const SyntaxTree& tree;
  const Ranks ranks;
  const Guards guards;
  ScriptFacts facts;

  static constexpr size_t kMaxFindings = 100;
  // Adds a finding at `node`, and hands it out for its edits. Beyond kMaxFindings they are dropped.
  Finding& add(std::string_view code, Severity severity, NodeId node, std::string message);
  std::vector<Finding> take() { return std::move(findings_); }

  int line(NodeId node) const { return tree.place(node).line; }
  // The text of `node` in one line, cut where it is long.
  std::string quoted(NodeId node) const;

  // Names that hold a model wrapped by DistributedDataParallel (or FSDP).
  bool is_wrapped(NodeId expression) const;
  bool is_fsdp_wrapped(NodeId expression) const;
  // Calls of DistributedDataParallel under any of its names.
  const std::vector<const Call*>& ddp_calls() const { return ddp_calls_; }
  const std::vector<const Call*>& fsdp_calls() const { return fsdp_calls_; }
  // Calls of torch's DataLoader that feed training, by what they are called.
  std::vector<const Call*> training_loaders() const;
  // The name that a call's value is given, or empty.
  std::string_view given_name(const Call& call) const;
  // Under an `if` of its function, other than `if __name__ == ...`.
  bool is_conditional(NodeId node) const;
  // A loop over epochs, or kNoNode.
  NodeId epoch_loop() const;
  // The innermost loop around a call of backward(), or kNoNode.
  NodeId training_loop() const;
  bool mentions(std::string_view word) const {
    return tree.source().find(word) != std::string_view::npos;
  }

 private:
  bool holds_call_of(NodeId expression, const std::vector<const Call*>& calls) const;

  std::vector<const Call*> ddp_calls_;
  std::vector<const Call*> fsdp_calls_;
  const std::string& file_;
  std::vector<Finding> findings_;
  Finding dropped_;
};

ScriptFacts facts_of(const Context& context);

// True when one of `words` stands in `text`, whatever its case.
bool mentions_any(std::string_view text, std::initializer_list<std::string_view> words);

}  // namespace shanty::lint
