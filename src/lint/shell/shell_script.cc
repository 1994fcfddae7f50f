#include "lint/shell/shell_script.h"

#include <algorithm>
#include <charconv>

namespace shanty::lint {

namespace {

constexpr size_t kMaxCommands = 20'000;
constexpr size_t kMaxLaunches = 64;

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
  commands_.push_back(std::move(command));
}

void ShellScript::add_variable(NodeId node) {
  const std::vector<NodeId> parts = tree_.children(node);
  if (parts.empty()) return;
  ShellVariable variable{.name = tree_.text(parts.front()), .node = node};
  if (parts.size() >= 3) {
    variable.value_node = parts.back();
    variable.value = unquoted(tree_.text(parts.back()));
  }
  variable.literal = variable.value.find_first_of("$`") == std::string::npos;
  variables_.push_back(std::move(variable));
}

void ShellScript::find_launches() {
  for (const ShellCommand& command : commands_) {
    if (launches_.size() >= kMaxLaunches) return;
    const std::vector<std::string>& words = command.words;
    for (size_t i = 0; i < words.size(); ++i) {
      const std::string_view word = words[i];
      const std::string_view name = word.substr(word.rfind('/') + 1);
      Launch launch{.command = &command, .word = i};
      launch.deprecated = name == "torch.distributed.launch";
      launch.torchrun = launch.deprecated || name == "torchrun" || name == "torch.distributed.run";
      const bool other =
          (name == "accelerate" && i + 1 < words.size() && words[i + 1] == "launch") ||
          name == "deepspeed";
      const bool script =
          is_python(word) && std::any_of(words.begin(), words.end(), names_training);
      const bool launcher_follows =
          script && std::any_of(words.begin(), words.end(), [](const std::string& w) {
            return w.starts_with("torch.distributed.");
          });
      if (!launch.torchrun && !other && (!script || launcher_follows)) continue;
      if (words[0] == "echo" || words[0] == "pip" || words[0] == "which") break;
      launches_.push_back(launch);
      break;
    }
  }
}

std::optional<std::string> ShellScript::value_of(std::string_view name) const {
  std::optional<std::string> out;
  for (const ShellVariable& variable : variables_) {
    if (variable.name != name) continue;
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
