#include "lint/shell/shell_script.h"

#include <algorithm>
#include <charconv>

#include "lint/shell/nested_commands.h"

namespace shanty::lint {

namespace {

constexpr size_t kMaxCommands = 20'000;
constexpr size_t kMaxLaunches = 64;
constexpr size_t kMaxAssignments = 64;  // of one variable
constexpr size_t kMaxSpliced = 1000;    // words of one command that come out of variables

std::string unquoted(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != '"' && c != '\'') out += c;
  }
  return out;
}

bool is_word(const SyntaxTree& tree, NodeId node) {
  for (const std::string_view kind :
       {"word", "string", "raw_string", "concatenation", "simple_expansion", "expansion", "number",
        "command_substitution", "arithmetic_expansion", "command_name", "ansi_c_string"}) {
    if (tree.is(node, kind)) return true;
  }
  return false;
}

// A manifest or a Dockerfile hands in what a container runs; a file of its own says it by name.
bool names_entry_point(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (!name.ends_with(".sh") && !name.ends_with(".bash") && name.find('.') != name.npos &&
      !name.ends_with(".slurm") && !name.ends_with(".sbatch")) {
    return true;
  }
  return name.find("entry") != name.npos || name.find("docker") != name.npos ||
         name.starts_with("start") || name.starts_with("init") || name == "Dockerfile";
}

std::string dashed(std::string_view option) {
  std::string out;
  for (const char c : option) out += c == '_' ? '-' : c;
  return out;
}

// The Python file that a command runs, by its name.
bool names_training(std::string_view word) {
  if (!word.ends_with(".py")) return false;
  const std::string_view name = word.substr(word.rfind('/') + 1);
  const auto has = [name](std::string_view part) { return name.find(part) != name.npos; };
  return (has("train") || has("tune") || has("main.py")) && !has("data") && !has("prep") &&
         !has("eval") && !has("test");
}

// It speaks of a launcher, and starts none: an installation, a message, a search for processes.
bool only_names(const std::vector<std::string>& words) {
  for (const std::string_view command :
       {"echo", "printf", "pip", "pip3", "which", "command", "pkill", "killall", "pgrep", "grep"}) {
    if (words[0] == command) return true;
  }
  return std::count(words.begin(), words.end(), "install") != 0;
}

bool is_python(std::string_view word) {
  const std::string_view name = word.substr(word.rfind('/') + 1);
  return name.starts_with("python") && name.find_first_not_of("0123456789.", 6) == name.npos;
}

}  // namespace

std::optional<int> count_in(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

ShellScript::ShellScript(SyntaxTree tree, const Source& source)
    : tree_(std::move(tree)), name_(source.name), entry_point_(names_entry_point(source.name)) {
  for (NodeId node = 0; node < tree_.size() && commands_.size() < kMaxCommands; ++node) {
    if (tree_.is(node, "command")) add_command(node);
    if (tree_.is(node, "variable_assignment")) add_variable(node);
  }
  for (size_t i = 0; i < variables_.size(); ++i) by_name_.emplace(variables_[i].name, i);
  splice_variables();
  find_launches();
}

void ShellScript::add_command(NodeId node) {
  ShellCommand command{.node = node};
  for (const NodeId part : tree_.children(node)) {
    if (tree_.is(part, "variable_assignment")) command.assignments.push_back(part);
    if (!is_word(tree_, part)) continue;
    command.words.push_back(unquoted(tree_.text(part)));
    command.word_nodes.push_back(part);
  }
  command.top_level = true;
  command.statement = node;
  NodeId below = node;
  for (NodeId at = tree_.parent(node); at != kNoNode; at = tree_.parent(at)) {
    if (tree_.is(at, "pipeline")) command.piped |= tree_.subtree_end(below) < tree_.subtree_end(at);
    const bool wraps =
        tree_.is(at, "pipeline") || tree_.is(at, "redirected_statement") || tree_.is(at, "list");
    if (!wraps && !tree_.is(at, "program")) command.top_level = false;
    if (!wraps) break;
    command.statement = at;
    below = at;
  }
  const NodeId next = tree_.next_sibling(command.statement);
  command.background = next != kNoNode && tree_.text(next) == "&";
  add_handed_variables(command);
  add_nested(command);
  commands_.push_back(std::move(command));
}

// srun bash -c "cd /code && torchrun train.py": what the inner shell runs, behind the outer words.
void ShellScript::add_nested(const ShellCommand& outer) {
  for (size_t i = 2; i < outer.words.size(); ++i) {
    const std::string& flag = outer.words[i - 1];
    const std::string_view shell =
        std::string_view(outer.words[i - 2]).substr(outer.words[i - 2].rfind('/') + 1);
    const bool is_text =
        tree_.is(outer.word_nodes[i], "string") || tree_.is(outer.word_nodes[i], "raw_string");
    if (!is_text || flag.size() < 2 || flag[0] != '-' || flag.back() != 'c' ||
        (shell != "bash" && shell != "sh")) {
      continue;
    }
    const std::string_view quoted = tree_.text(outer.word_nodes[i]);
    for (std::vector<std::string>& words : commands_in(quoted.substr(1, quoted.size() - 2))) {
      ShellCommand inner = outer;
      inner.words.resize(i);
      inner.words.insert(inner.words.end(), words.begin(), words.end());
      inner.word_nodes.resize(i);
      inner.word_nodes.resize(inner.words.size(), outer.word_nodes[i]);
      commands_.push_back(std::move(inner));
    }
    return;
  }
}

// `mpirun -x NAME=value`, `docker run -e NAME=value`.
void ShellScript::add_handed_variables(const ShellCommand& command) {
  for (size_t i = 1; i < command.words.size(); ++i) {
    const std::string& flag = command.words[i - 1];
    if (flag != "-x" && flag != "-e" && flag != "--env") continue;
    const NodeId node = command.word_nodes[i];
    const std::string_view text = tree_.text(node);
    const size_t equals = text.find('=');
    if (equals == text.npos || text.find_first_of("\"'") < equals) continue;
    ShellVariable variable{.name = text.substr(0, equals), .node = node, .for_ranks = true};
    variable.value = unquoted(text.substr(equals + 1));
    variable.literal = variable.value.find_first_of("$`") == std::string::npos;
    variables_.push_back(std::move(variable));
  }
}

// The assignments whose words stand for `word`: "${ARGS[@]}", or $ARGS where it holds options.
// None where branches give the variable different ones.
std::vector<const ShellVariable*> ShellScript::holding_words(std::string_view word) const {
  if (!word.starts_with('$')) return {};
  word.remove_prefix(word.starts_with("${") ? 2 : 1);
  if (word.ends_with('}')) word.remove_suffix(1);
  const bool is_array = word.ends_with("[@]") || word.ends_with("[*]");
  if (is_array) word.remove_suffix(3);
  std::vector<const ShellVariable*> out;
  size_t set = 0;
  const auto [begin, end] = by_name_.equal_range(word);
  for (auto at = begin; at != end && out.size() < kMaxAssignments; ++at) {
    const ShellVariable& variable = variables_[at->second];
    if (variable.for_ranks || variable.value_node == kNoNode) continue;
    const bool holds = tree_.is(variable.value_node, "array") ||
                       variable.value.find_first_of(" \n") != std::string::npos;
    if (!is_array && !holds) return {};
    if (!variable.appends && variable.value != "()") ++set;
    out.push_back(&variable);
  }
  return set > 1 ? std::vector<const ShellVariable*>{} : out;
}

void ShellScript::splice_variables() {
  for (ShellCommand& command : commands_) {
    std::vector<std::string> words;
    std::vector<NodeId> nodes;
    for (size_t i = 0; i < command.words.size() && words.size() < kMaxSpliced; ++i) {
      const std::vector<const ShellVariable*> holders = holding_words(command.words[i]);
      if (holders.empty() || words.empty()) {
        words.push_back(command.words[i]);
        nodes.push_back(command.word_nodes[i]);
        continue;
      }
      for (const ShellVariable* holder : holders) {
        if (tree_.is(holder->value_node, "array")) {
          for (const NodeId item : tree_.children(holder->value_node)) {
            if (!is_word(tree_, item)) continue;
            words.push_back(unquoted(tree_.text(item)));
            nodes.push_back(item);
          }
          continue;
        }
        std::string_view rest = holder->value;
        while (!rest.empty()) {
          const size_t end = rest.find_first_of(" \t\n\\");
          if (end != 0) words.emplace_back(rest.substr(0, end));
          if (end != 0) nodes.push_back(holder->value_node);
          rest = end == rest.npos ? std::string_view() : rest.substr(end + 1);
        }
      }
    }
    command.words = std::move(words);
    command.word_nodes = std::move(nodes);
  }
}

void ShellScript::add_variable(NodeId node) {
  const std::vector<NodeId> parts = tree_.children(node);
  if (parts.empty()) return;
  ShellVariable variable{.name = tree_.text(parts.front()), .node = node};
  variable.appends = parts.size() >= 2 && tree_.text(parts[1]) == "+=";
  if (parts.size() >= 3) {
    variable.value_node = parts.back();
    variable.value = unquoted(tree_.text(parts.back()));
  }
  // The counter of a loop has many values.
  const bool counts = tree_.is(tree_.parent(node), "c_style_for_statement");
  variable.literal = !counts && variable.value.find_first_of("$`") == std::string::npos;
  variables_.push_back(std::move(variable));
}

void ShellScript::find_launches() {
  for (const ShellCommand& command : commands_) {
    if (launches_.size() >= kMaxLaunches) return;
    const std::vector<std::string>& words = command.words;
    for (size_t i = 0; i < words.size(); ++i) {
      const std::string word = filled(words[i]);
      const std::string_view name = std::string_view(word).substr(word.rfind('/') + 1);
      Launch launch{.command = &command, .word = i};
      launch.deprecated = name == "torch.distributed.launch";
      if (launch.deprecated || name == "torchrun" || name == "torch.distributed.run") {
        launch.by = LaunchedBy::kTorchrun;
      } else if (name == "accelerate.commands.launch" ||
                 (name == "accelerate" && i + 1 < words.size() && words[i + 1] == "launch")) {
        launch.by = LaunchedBy::kAccelerate;
      } else if (name == "deepspeed") {
        launch.by = LaunchedBy::kDeepspeed;
      }
      const bool script =
          is_python(word) && std::any_of(words.begin(), words.end(), names_training);
      const bool launcher_follows =
          script && std::any_of(words.begin(), words.end(), [](const std::string& w) {
            return w.starts_with("torch.distributed.") || w.starts_with("accelerate.");
          });
      if (launch.by == LaunchedBy::kPlain && (!script || launcher_follows)) continue;
      if (only_names(words)) break;
      launches_.push_back(launch);
      break;
    }
  }
}

std::optional<std::string> ShellScript::value_of(std::string_view name) const {
  std::optional<std::string> out;
  const auto [begin, end] = by_name_.equal_range(name);
  size_t seen = 0;
  for (auto at = begin; at != end; ++at) {
    const ShellVariable& variable = variables_[at->second];
    if (++seen > kMaxAssignments) return std::nullopt;
    if (!variable.literal || (out && *out != variable.value)) return std::nullopt;
    out = variable.value;
  }
  return out;
}

// `$NNODES` and `${NNODES}` by what the script gives them.
std::string ShellScript::filled(std::string_view text) const {
  std::string_view name = text;
  if (!name.starts_with('$')) return std::string(text);
  name.remove_prefix(1);
  std::string_view rest;
  if (name.starts_with('{')) {
    const size_t end = name.find('}');
    if (end == name.npos) return std::string(text);
    rest = name.substr(end + 1);
    name = name.substr(1, end - 1);
  } else {
    const size_t end = name.find(':');
    if (end != name.npos) {
      rest = name.substr(end);
      name = name.substr(0, end);
    }
  }
  const auto value = value_of(name);
  return value ? *value + std::string(rest) : std::string(text);
}

std::optional<Launch::Option> ShellScript::option(const Launch& launch,
                                                  std::string_view name) const {
  const ShellCommand& command = *launch.command;
  for (size_t i = launch.word + 1; i < command.words.size(); ++i) {
    const std::string& word = command.words[i];
    if (word.ends_with(".py")) break;
    if (!word.starts_with("-")) continue;
    const size_t equals = word.find('=');
    std::string_view option = std::string_view(word).substr(0, equals);
    option.remove_prefix(std::min(option.find_first_not_of('-'), option.size()));
    if (dashed(option) != name) continue;
    if (equals != word.npos) {
      return Launch::Option{filled(word.substr(equals + 1)), command.word_nodes[i]};
    }
    const bool has_value = i + 1 < command.words.size() && !command.words[i + 1].starts_with("--");
    return Launch::Option{has_value ? filled(command.words[i + 1]) : "", command.word_nodes[i]};
  }
  return std::nullopt;
}

bool ShellScript::is_bash() const {
  const std::string_view first = tree_.source().substr(0, tree_.source().find('\n'));
  return first.starts_with("#!") && first.find("bash") != first.npos;
}

bool ShellScript::stops_on_error() const {
  const std::string_view first = tree_.source().substr(0, tree_.source().find('\n'));
  if (first.starts_with("#!") && first.find(" -e") != first.npos) return true;
  return std::any_of(commands_.begin(), commands_.end(), [](const ShellCommand& command) {
    return command.starts_with("set") &&
           std::any_of(command.words.begin(), command.words.end(), [](const std::string& word) {
             return word == "errexit" || (word.starts_with('-') && !word.starts_with("--") &&
                                          word.find('e') != word.npos);
           });
  });
}

Finding& ShellScript::add(std::string_view code, Severity severity, NodeId node,
                          std::string message) {
  if (findings_.size() >= kMaxFindings) return dropped_ = {};
  const Place place = tree_.place(node);
  findings_.push_back({.code = std::string(code),
                       .severity = severity,
                       .file = name_,
                       .line = place.line,
                       .column = place.column,
                       .message = std::move(message)});
  return findings_.back();
}

}  // namespace shanty::lint
