#include <algorithm>

#include <fmt/format.h>

#include "lint/shell/shell_script.h"

namespace shanty::lint {

namespace {

// The value of "#SBATCH --nodes=4", "#SBATCH --nodes 4" or "#SBATCH -N 4", or empty.
std::string_view directive_text(const ShellScript& script, std::string_view name,
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
      if (!value.starts_with(' ') && !value.starts_with('=') && option == name) continue;
      value.remove_prefix(std::min(value.find_first_not_of(" ="), value.size()));
      return value.substr(0, value.find_first_of(" \t\r#"));
    }
  }
  return {};
}

std::optional<int> directive(const ShellScript& script, std::string_view name,
                             std::string_view letter) {
  const std::string_view value = directive_text(script, name, letter);
  return count_in(value.substr(0, value.find_first_not_of("0123456789")));
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

// "--machine_rank", "--node-rank", "RANK=": the value says what the variable is for.
bool mentions_rank(std::string_view text) {
  return text.find("rank") != text.npos || text.find("RANK") != text.npos;
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

// The variable that holds the whole command line: srun's tasks get it with the 0 in it.
bool is_used_by_srun(const ShellScript& script, const ShellVariable& variable) {
  const std::string plain = fmt::format("${}", variable.name);
  const std::string braced = fmt::format("${{{}}}", variable.name);
  return std::any_of(script.commands().begin(), script.commands().end(),
                     [&](const ShellCommand& command) {
                       const std::string_view text = script.tree().text(command.node);
                       return is_srun(command) && !only_tells(command) &&
                              (text.find(plain) != text.npos || text.find(braced) != text.npos);
                     });
}

// export RANK=$SLURM_PROCID in front of srun: every task inherits 0.
void check_early_exports(ShellScript& script, std::optional<int> nodes) {
  if (nodes == 1) return;
  if (std::none_of(script.commands().begin(), script.commands().end(), is_srun)) return;
  for (const ShellVariable& variable : script.variables()) {
    const std::string_view name = task_variable(variable.value);
    if (name.empty() || script.tree().is(variable.value_node, "raw_string")) continue;
    const bool is_rank =
        variable.name.find("RANK") != variable.name.npos && !script.launches().empty();
    if (!is_rank && !(mentions_rank(variable.value) && is_used_by_srun(script, variable))) continue;
    const bool is_used = script.mentions(fmt::format("${}", variable.name)) ||
                         script.mentions(fmt::format("${{{}", variable.name));
    const bool is_exported =
        script.tree().is(script.tree().parent(variable.node), "declaration_command");
    if (!is_used && !is_exported) continue;
    script.add("RUN041", deals_ranks_out(script) ? Severity::kNote : Severity::kError,
               variable.node,
               is_rank ? fmt::format("{} is 0 in the batch script, and srun's tasks inherit {}=0 "
                                     "from it",
                                     name, variable.name)
                       : fmt::format("{} is filled in here, where it is 0, before srun starts the "
                                     "tasks: all of them get 0",
                                     name));
    return;
  }
}

// Every line of the script but its comments.
bool says(const ShellScript& script, std::string_view word) {
  std::string_view rest = script.tree().source();
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    const size_t start = line.find_first_not_of(" \t");
    const bool is_comment = start != line.npos && line[start] == '#';
    if (!is_comment && line.substr(0, line.find(" #")).find(word) != line.npos) return true;
    rest = end == rest.npos ? std::string_view() : rest.substr(end + 1);
  }
  return false;
}

bool reaches_other_nodes(const ShellScript& script) {
  for (const std::string_view word :
       {"srun", "mpirun", "mpiexec", "ssh ", "pdsh", "clush", "hostfile", "ray ", "parallel "}) {
    if (says(script, word)) return true;
  }
  return false;
}

// "--gres=gpu:a100:4", "--gpus-per-node=4": GPUs on each node, where it is a number.
std::optional<int> gpus_per_node(const ShellScript& script) {
  for (const std::string_view option : {"--gres", "--gpus-per-node"}) {
    const std::string_view value = directive_text(script, option, "");
    if (value.empty() || (option == "--gres" && !value.starts_with("gpu"))) continue;
    return count_in(value.substr(value.rfind(':') + 1));
  }
  return std::nullopt;
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

// As many tasks as GPUs are asked for, and Python is started once.
void check_missing_srun(ShellScript& script) {
  const auto tasks = directive(script, "--ntasks-per-node", "");
  if (tasks.value_or(1) < 2 || tasks != gpus_per_node(script) || reaches_other_nodes(script))
    return;
  for (const Launch& launch : script.launches()) {
    if (launch.by != LaunchedBy::kPlain) continue;
    script.add("RUN042", Severity::kWarning, launch.command->node,
               fmt::format("{} tasks for {} GPUs are asked for, and this starts one process: srun "
                           "starts the others",
                           *tasks, *tasks));
    return;
  }
}

// More processes of a launcher than the batch script has GPUs for.
void check_processes(ShellScript& script) {
  const auto gpus = gpus_per_node(script);
  for (const Launch& launch : script.launches()) {
    const auto processes = script.option(launch, "nproc-per-node");
    const auto count = processes ? count_in(processes->value) : std::nullopt;
    if (!gpus || !count || *count == *gpus || *gpus == 0) continue;
    if (script.value_of("CUDA_VISIBLE_DEVICES")) return;  // its number is looked at elsewhere
    const auto tasks = directive(script, "--ntasks-per-node", "");
    if (*count < *gpus && tasks.value_or(1) > 1) return;
    script.add(
        "RUN034", *count > *gpus ? Severity::kError : Severity::kNote, processes->node,
        fmt::format("{} processes on each node and {} GPUs asked for: {}", *count, *gpus,
                    *count > *gpus ? "the last ones find no device" : "some GPUs stay idle"));
    return;
  }
}

// srun starts torchrun on each node, and none of them hears of the others.
void check_worlds_apart(ShellScript& script, std::optional<int> nodes) {
  if (nodes.value_or(1) < 2 || script.mentions("PET_NNODES")) return;
  for (const Launch& launch : script.launches()) {
    const ShellCommand& command = *launch.command;
    bool is_whole = true;  // no options hidden in a variable
    for (size_t i = launch.word + 1; i < command.words.size(); ++i) {
      if (command.words[i].ends_with(".py")) break;
      is_whole &= !command.words[i].starts_with('$') || command.words[i - 1].starts_with('-');
    }
    const bool on_one = std::any_of(
        command.words.begin(), command.words.begin() + static_cast<ptrdiff_t>(launch.word),
        [](const std::string& word) {
          return word.starts_with("--nodes") || word.starts_with("-N") || word == "-w" ||
                 word.starts_with("--nodelist");
        });
    if (launch.by != LaunchedBy::kTorchrun || !is_srun(command) || !is_whole || on_one ||
        script.option(launch, "nnodes") || script.option(launch, "standalone")) {
      continue;
    }
    script.add("RANK017", Severity::kError, command.word_nodes[launch.word],
               fmt::format("torchrun is not told --nnodes: each of the {} nodes trains for itself",
                           *nodes));
    return;
  }
}

// --nnodes=8 in a job of two nodes: the launchers wait for six that do not come.
void check_node_count(ShellScript& script) {
  const std::string_view text = directive_text(script, "--nodes", "-N");
  const auto asked = count_in(text);  // "2-4" is no number
  if (!asked) return;
  // A launcher counts as a node, and srun starts one for each task.
  const int tasks = std::max(directive(script, "--ntasks", "-n").value_or(0),
                             *asked * directive(script, "--ntasks-per-node", "").value_or(1));
  for (const Launch& launch : script.launches()) {
    const bool is_accelerate = launch.by == LaunchedBy::kAccelerate;
    if (launch.by != LaunchedBy::kTorchrun && !is_accelerate) continue;
    const auto nodes = script.option(launch, is_accelerate ? "num-machines" : "nnodes");
    const auto least =
        nodes ? count_in(nodes->value.substr(0, nodes->value.find(':'))) : std::nullopt;
    if (!least || *least <= std::max(*asked, tasks)) continue;
    script.add(
        "RANK011", Severity::kError, nodes->node,
        fmt::format("{} nodes are waited for, and the batch script asks for {}", *least, *asked));
    return;
  }
}

// A shell of its own for each task, which takes its own name for the master's.
void check_own_name(ShellScript& script, std::optional<int> nodes) {
  if (nodes == 1) return;
  const SyntaxTree& tree = script.tree();
  for (const ShellCommand& command : script.commands()) {
    if (!is_srun(command)) continue;
    for (const NodeId word : command.word_nodes) {
      if (!tree.is(word, "raw_string")) continue;
      const std::string_view text = tree.text(word);
      for (const std::string_view sign : {"MASTER_ADDR=$(hostname", "MASTER_ADDR=`hostname",
                                          "MASTER_ADDR=$HOSTNAME", "MASTER_ADDR=\"$(hostname"}) {
        if (text.find(sign) == text.npos) continue;
        script.add("RUN030", Severity::kError, word,
                   "every task takes its own host for the master: the nodes do not find each "
                   "other");
        return;
      }
    }
  }
}

// Each task sees GPUs of its own.
bool binds_gpus(const ShellScript& script, const ShellCommand& srun) {
  for (const std::string_view word : {"gpus-per-task", "gpu-bind", "tres-per-task", "tres-bind"}) {
    if (script.tree().text(srun.node).find(word) != std::string_view::npos) return true;
    if (!directive_text(script, "--" + std::string(word), "").empty()) return true;
  }
  return script.mentions("CUDA_VISIBLE_DEVICES") || gpus_per_node(script).value_or(0) < 2;
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
    if (is_told || !processes) continue;
    if (processes->value == "1") {
      if (binds_gpus(script, command)) continue;
      script.add("RUN043", Severity::kError, command.node,
                 fmt::format("srun starts {} launchers on each node, and the process of each has "
                             "LOCAL_RANK 0: all of them use the first GPU",
                             *tasks));
      return;
    }
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
  check_own_name(script, nodes);
  check_early_exports(script, nodes);
  if (script.launches().empty()) return;
  check_early_variables(script, nodes);
  check_one_node(script, nodes);
  check_missing_srun(script);
  check_processes(script);
  check_worlds_apart(script, nodes);
  check_node_count(script);
  check_launcher_per_task(script);
}

}  // namespace shanty::lint
