#include <algorithm>

#include <fmt/format.h>

#include "lint/shell/shell_script.h"

namespace shanty::lint {

namespace {

// The value of "#SBATCH --nodes=4", "#SBATCH --nodes 4" or "#SBATCH -N 4" where it is a number.
std::optional<int> directive(const ShellScript& script, std::string_view name,
                             std::string_view letter) {
  constexpr std::string_view kMark = "#SBATCH";
  const std::string_view text = script.tree().source();
  for (size_t at = text.find(kMark); at != text.npos; at = text.find(kMark, at + 1)) {
    if (at != 0 && text[at - 1] != '\n') continue;
    std::string_view line = text.substr(at + kMark.size());
    line = line.substr(0, line.find('\n'));
    for (const std::string_view option : {name, letter}) {
      const size_t found = option.empty() ? line.npos : line.find(option);
      if (found == line.npos || found == 0 || line[found - 1] != ' ') continue;
      std::string_view value = line.substr(found + option.size());
      value.remove_prefix(std::min(value.find_first_not_of(" ="), value.size()));
      return count_in(value.substr(0, value.find_first_not_of("0123456789")));
    }
  }
  return std::nullopt;
}

bool is_srun(const ShellCommand& command) { return command.starts_with("srun"); }

// It prints something, and starts nothing.
bool only_tells(const ShellCommand& command) {
  return std::any_of(command.words.begin(), command.words.end(), [](const std::string& word) {
    return word == "echo" || word == "printf" || word == "hostname";
  });
}

// The variable of a task that `text` names, if the shell that reads the text fills it in.
std::string_view task_variable(std::string_view text) {
  for (const std::string_view name : {"SLURM_PROCID", "SLURM_NODEID", "SLURM_LOCALID"}) {
    for (size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
      const size_t dollar = at >= 2 && text[at - 1] == '{' ? at - 2 : at - 1;
      if (at == 0 || dollar >= text.size() || text[dollar] != '$') continue;
      if (dollar == 0 || text[dollar - 1] != '\\') return name;
    }
  }
  return {};
}

bool deals_ranks_out(const ShellScript& script) {
  return script.mentions("c10d") || script.mentions("etcd");
}

// srun starts a shell for each task, but these words are filled in before, by the batch script's.
void check_early_variables(ShellScript& script, std::optional<int> nodes) {
  if (nodes == 1) return;
  const SyntaxTree& tree = script.tree();
  for (const ShellCommand& command : script.commands()) {
    if (!is_srun(command) || only_tells(command)) continue;
    for (const NodeId word : command.word_nodes) {
      if (tree.is(word, "raw_string")) continue;
      const std::string_view name = task_variable(tree.text(word));
      if (name.empty()) continue;
      script.add("RUN041", deals_ranks_out(script) ? Severity::kNote : Severity::kError, word,
                 fmt::format("{} is filled in by the batch script, where it is 0, before srun "
                             "starts the tasks: all of them get 0",
                             name));
      return;
    }
  }
}

// export RANK=$SLURM_PROCID in front of srun: every task inherits 0.
void check_early_exports(ShellScript& script, std::optional<int> nodes) {
  if (nodes == 1) return;
  if (std::none_of(script.commands().begin(), script.commands().end(), is_srun)) return;
  for (const ShellVariable& variable : script.variables()) {
    const std::string_view name = task_variable(variable.value);
    if (name.empty() || variable.name.find("RANK") == variable.name.npos) continue;
    const bool is_used = script.mentions(fmt::format("${}", variable.name)) ||
                         script.mentions(fmt::format("${{{}", variable.name));
    const bool is_exported =
        script.tree().is(script.tree().parent(variable.node), "declaration_command");
    if (!is_used && !is_exported) continue;
    script.add("RUN041", deals_ranks_out(script) ? Severity::kNote : Severity::kError,
               variable.node,
               fmt::format("{} is 0 in the batch script, and srun's tasks inherit {}=0 from it",
                           name, variable.name));
    return;
  }
}

bool reaches_other_nodes(const ShellScript& script) {
  for (const std::string_view word :
       {"srun", "mpirun", "mpiexec", "ssh ", "pdsh", "clush", "hostfile", "ray ", "parallel "}) {
    if (script.mentions(word)) return true;
  }
  return false;
}

// A batch script runs on the first of its nodes.
void check_one_node(ShellScript& script, std::optional<int> nodes) {
  if (nodes.value_or(1) < 2 || reaches_other_nodes(script)) return;
  for (const Launch& launch : script.launches()) {
    if (launch.by == LaunchedBy::kDeepspeed || launch.by == LaunchedBy::kPlain) continue;
    const auto wanted =
        script.option(launch, launch.by == LaunchedBy::kAccelerate ? "num-machines" : "nnodes");
    const bool is_several = wanted && wanted->value != "1";
    script.add("RUN042", is_several ? Severity::kError : Severity::kWarning, launch.command->node,
               fmt::format("nothing starts this on the other {} of the {} nodes: a batch script "
                           "runs on the first one only, srun on all",
                           *nodes - 1, *nodes));
    return;
  }
}

// srun starts a launcher per task, and each launcher starts a process per GPU.
void check_launcher_per_task(ShellScript& script) {
  const auto tasks = directive(script, "--ntasks-per-node", "");
  if (tasks.value_or(1) < 2) return;
  for (const Launch& launch : script.launches()) {
    const ShellCommand& command = *launch.command;
    if (launch.by != LaunchedBy::kTorchrun || !is_srun(command)) continue;
    const bool is_told =
        std::any_of(command.words.begin(), command.words.end(), [](const std::string& word) {
          return word.starts_with("--ntasks") || word.starts_with("-n");
        });
    const auto processes = script.option(launch, "nproc-per-node");
    if (is_told || !processes || processes->value == "1") continue;
    script.add("RUN043", Severity::kError, command.node,
               fmt::format("srun starts {} launchers on each node, and each of them starts a "
                           "process per GPU: --ntasks-per-node=1 for a launcher",
                           *tasks));
    return;
  }
}

}  // namespace

void check_slurm(ShellScript& script) {
  if (!script.is_batch()) return;
  const auto nodes = directive(script, "--nodes", "-N");
  check_early_variables(script, nodes);
  check_early_exports(script, nodes);
  check_one_node(script, nodes);
  check_launcher_per_task(script);
}

}  // namespace shanty::lint
