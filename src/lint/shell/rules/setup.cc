#include <algorithm>

#include <fmt/format.h>

#include "lint/shell/shell_script.h"

namespace shanty::lint {

namespace {

// `conda activate` is a function that only an initialised shell has.
void check_conda(ShellScript& script) {
  for (const std::string_view sign : {"conda.sh", "hook", "bashrc", "bash_profile", "bash -i",
                                      "bash -l", "bash -il", "profile.d", "mamba.sh", "zshrc"}) {
    if (script.mentions(sign)) return;
  }
  for (const ShellCommand& command : script.commands()) {
    // conda's own script `activate`, found on the PATH, reads conda.sh.
    const bool reads = (command.starts_with("source") || command.starts_with(".")) &&
                       command.words.size() > 1 && command.words[1] == "activate";
    if (reads) return;
    // The module of a cluster brings conda's functions.
    const bool loads =
        (command.starts_with("module") || command.starts_with("ml")) &&
        std::any_of(command.words.begin(), command.words.end(), [](const auto& word) {
          return word.find("conda") != word.npos || word.find("mamba") != word.npos ||
                 word.find("forge") != word.npos;
        });
    if (loads) return;
  }
  for (const ShellCommand& command : script.commands()) {
    if (!command.starts_with("conda") || command.words.size() < 2 ||
        command.words[1] != "activate") {
      continue;
    }
    script.add("RUN038", Severity::kWarning, command.node,
               "conda activate fails in a script that has not read conda.sh: the training runs "
               "with another Python");
    return;
  }
}

bool installs(const ShellCommand& command) {
  const auto& words = command.words;
  const auto install = std::find(words.begin(), words.end(), "install");
  if (install == words.end() || install == words.begin()) return false;
  const bool known = std::any_of(words.begin(), install, [](const std::string& word) {
    const std::string_view name = std::string_view(word).substr(word.rfind('/') + 1);
    return name == "pip" || name == "pip3" || name == "apt-get" || name == "apt" ||
           name == "conda" || name == "mamba" || name == "uv";
  });
  const bool local = std::any_of(install, words.end(), [](const std::string& word) {
    return word == "--no-deps" || word == "--no-index" || word == "-e" || word == "." ||
           word == "--editable";
  });
  return known && !local;
}

void check_installs(ShellScript& script) {
  for (const ShellCommand& command : script.commands()) {
    if (!installs(command) || command.node > script.launches().back().command->node) continue;
    script.add("RUN039", script.is_entry_point() ? Severity::kWarning : Severity::kNote,
               command.node,
               fmt::format("{} install at every start: each pod and each restart downloads again, "
                           "and may get other versions than its peers",
                           command.words[0]));
    return;
  }
}

// The launcher's options go on in the next line, and nothing says so.
void check_broken_lines(ShellScript& script) {
  const NodeId first = script.launches().front().command->node;
  for (const ShellCommand& command : script.commands()) {
    if (command.node < first || !script.starts_with_option(command)) continue;
    const std::string_view text = script.tree().text(command.node);
    script.add("RUN046", Severity::kError, command.node,
               fmt::format("{} begins a command of its own: the line before it does not end with a "
                           "backslash, or a comment stands between",
                           text.substr(0, text.find_first_of(" \n"))));
    return;
  }
}

}  // namespace

void check_setup(ShellScript& script) {
  check_conda(script);
  check_broken_lines(script);
  check_installs(script);
}

}  // namespace shanty::lint
