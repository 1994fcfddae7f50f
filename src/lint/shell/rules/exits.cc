#include <algorithm>

#include <fmt/format.h>

#include "lint/shell/shell_script.h"

namespace shanty::lint {

namespace {

bool keeps_pipe_status(const ShellScript& script) {
  return script.mentions("pipefail") || script.mentions("PIPESTATUS");
}

// Where the statement's line begins, if nothing but blanks is before it.
std::optional<size_t> line_start(const SyntaxTree& tree, NodeId statement) {
  const size_t at = tree.begin(statement);
  const size_t line = tree.source().substr(0, at).rfind('\n') + 1;
  return line == at ? std::optional(line) : std::nullopt;
}

void check_pipes(ShellScript& script) {
  if (keeps_pipe_status(script)) return;
  for (const Launch& launch : script.launches()) {
    if (!launch.command->piped) continue;
    Finding& finding = script.add(
        "RUN036", Severity::kWarning, launch.command->node,
        "the exit code of the training is lost in the pipe: a failed run counts as done");
    const auto start = line_start(script.tree(), launch.command->statement);
    if (script.is_bash() && start) finding.edits.push_back({*start, *start, "set -o pipefail\n"});
    return;
  }
}

bool is_launch(const ShellScript& script, const ShellCommand& command) {
  return std::any_of(script.launches().begin(), script.launches().end(),
                     [&](const Launch& launch) { return launch.command == &command; });
}

// Commands after the training end the script with their own exit code.
void check_lost_code(ShellScript& script) {
  if (script.stops_on_error() || script.mentions("$?") || script.mentions("trap ")) return;
  const Launch& last = script.launches().back();
  const ShellCommand& training = *last.command;
  if (!training.top_level || training.background || training.piped ||
      script.tree().is(training.statement, "list")) {
    return;
  }
  const ShellCommand* after = nullptr;
  for (const ShellCommand& command : script.commands()) {
    if (command.node > training.node && command.top_level && !script.starts_with_option(command) &&
        !is_launch(script, command)) {
      after = &command;
    }
  }
  if (after == nullptr || script.tree().contains(training.statement, after->node) ||
      after->starts_with("exit") || after->starts_with("wait")) {
    return;
  }
  script.add("RUN037",
             script.is_entry_point() || script.is_batch() ? Severity::kWarning : Severity::kNote,
             training.node,
             fmt::format("the script goes on after the training and ends with the exit code of "
                         "\"{}\" (line {}): a failed run counts as done",
                         after->words.empty() ? "" : after->words[0],
                         script.tree().place(after->node).line));
}

// The shell is the first process: it gets SIGTERM, and the training learns nothing of it.
void check_signals(ShellScript& script) {
  if (!script.is_entry_point() || script.mentions("trap ")) return;
  const ShellCommand& last = script.commands().back();
  if (!is_launch(script, last) || !last.top_level || last.piped || last.background ||
      last.starts_with("exec")) {
    return;
  }
  // A shell that is given one command alone becomes that command.
  if (script.commands().size() == 1 && !script.mentions("#!")) return;
  const size_t at = script.tree().begin(last.node);
  const bool plain = last.assignments.empty() && !script.tree().is(last.statement, "list");
  Finding& finding = script.add(
      "RUN035", Severity::kWarning, last.node,
      "without exec the shell stays in front of the training: SIGTERM ends at the shell, and "
      "there is no last checkpoint");
  if (plain) finding.edits.push_back({at, at, "exec "});
}

void check_background(ShellScript& script) {
  if (!script.is_entry_point() || script.mentions("wait")) return;
  const ShellCommand& last = script.commands().back();
  if (!is_launch(script, last) || !last.background) return;
  script.add("RUN040", Severity::kError, last.node,
             "the training runs in the background and the script ends: the container ends with it");
}

}  // namespace

void check_exits(ShellScript& script) {
  check_pipes(script);
  check_lost_code(script);
  check_signals(script);
  check_background(script);
}

}  // namespace shanty::lint
