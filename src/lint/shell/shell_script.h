#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "causes/finding.h"
#include "lint/source.h"
#include "lint/syntax/tree.h"

namespace shanty::lint {

// A simple command: its words without quotes, and what surrounds it.
struct ShellCommand {
  NodeId node = kNoNode;
  std::vector<std::string> words;
  std::vector<NodeId> word_nodes;
  std::vector<NodeId> assignments;  // before its name
  NodeId statement = kNoNode;       // the pipeline, list or command of its block
  bool top_level = false;           // in no function, loop or branch
  bool piped = false;               // hands its output to another command
  bool background = false;

  bool starts_with(std::string_view name) const { return !words.empty() && words[0] == name; }
};

// NAME=value, exported or not.
struct ShellVariable {
  std::string_view name;
  std::string value;  // as written, without quotes
  bool literal = false;
  NodeId node = kNoNode;  // the assignment
  NodeId value_node = kNoNode;
  bool appends = false;    // NAME+=value
  bool for_ranks = false;  // handed to the ranks by the launcher alone: mpirun -x NAME=value
};

// What starts the ranks; kPlain is Python by itself.
enum class LaunchedBy { kPlain, kTorchrun, kAccelerate, kDeepspeed };

// A command that starts training.
struct Launch {
  const ShellCommand* command = nullptr;
  LaunchedBy by = LaunchedBy::kPlain;
  bool deprecated = false;  // torch.distributed.launch
  size_t word = 0;          // of the launcher

  struct Option {
    std::string value;  // with variables of the script filled in
    NodeId node = kNoNode;
  };
};

class ShellScript {
 public:
  ShellScript(SyntaxTree tree, const Source& source);

  const SyntaxTree& tree() const { return tree_; }
  const std::vector<ShellCommand>& commands() const { return commands_; }
  const std::vector<ShellVariable>& variables() const { return variables_; }
  const std::vector<Launch>& launches() const { return launches_; }
  // `nproc-per-node`, however it is spelled; its words may come out of variables.
  std::optional<Launch::Option> option(const Launch& launch, std::string_view name) const;
  // A literal the variable has whatever happened, or nothing.
  std::optional<std::string> value_of(std::string_view variable) const;
  bool mentions(std::string_view word) const {
    return tree_.source().find(word) != std::string_view::npos;
  }

  // No command's name: "--nnodes=2" after a line that lacks its backslash.
  bool starts_with_option(const ShellCommand& command) const {
    const std::string_view text = tree_.text(command.node);
    return text.size() > 3 && text.starts_with("--");
  }

  bool is_entry_point() const { return entry_point_; }  // the first process of a container
  bool is_batch() const { return mentions("#SBATCH"); }
  bool is_bash() const;
  // `set -e`, or by the first line.
  bool stops_on_error() const;

  static constexpr size_t kMaxFindings = 100;
  Finding& add(std::string_view code, Severity severity, NodeId node, std::string message);
  std::vector<Finding> take() { return std::move(findings_); }

 private:
  void add_command(NodeId node);
  void add_nested(const ShellCommand& outer);
  void add_variable(NodeId node);
  void add_handed_variables(const ShellCommand& command);
  void splice_variables();
  std::vector<const ShellVariable*> holding_words(std::string_view word) const;
  void find_launches();
  std::string filled(std::string_view text) const;

  SyntaxTree tree_;
  std::string name_;
  bool entry_point_;
  std::vector<ShellCommand> commands_;
  std::vector<ShellVariable> variables_;
  std::multimap<std::string_view, size_t> by_name_;  // into variables_
  std::vector<Launch> launches_;
  std::vector<Finding> findings_;
  Finding dropped_;
};

// A whole number, or nothing.
std::optional<int> count_in(std::string_view text);

void check_variables(ShellScript& script);  // NCCL, PERF001
void check_torchrun(ShellScript& script);   // RUN021, RUN024, RUN029 to RUN034, RUN045, RDZV007
void check_slurm(ShellScript& script);      // RANK011, RANK017, RUN030, RUN034, RUN041 to 043
void check_exits(ShellScript& script);      // RUN035 to RUN037, RUN040
void check_setup(ShellScript& script);      // RUN038, RUN039, RUN046

}  // namespace shanty::lint
