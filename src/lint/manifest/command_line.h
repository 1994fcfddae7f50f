#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lint/manifest/ref.h"

namespace shanty::lint {

// One word of what a container runs, and the value of the manifest that holds it.
struct Word {
  std::string text;
  const YamlNode* node = nullptr;
  size_t offset = 0;  // of the word in the value's text
};

// What starts the processes of a rank.
enum class Launcher { kNone, kPython, kTorchrun, kAccelerate, kDeepspeed, kMpirun };

// A container's command and args as words. What is handed to a shell is split as a shell would,
// roughly: quotes and comments are known, expansions stay as they are written.
class CommandLine {
 public:
  CommandLine() = default;
  CommandLine(Ref command, Ref args);

  const std::vector<Word>& words() const { return words_; }
  bool empty() const { return words_.empty(); }
  bool has_shell() const { return has_shell_; }
  // The values handed to a shell.
  const std::vector<const YamlNode*>& scripts() const { return scripts_; }
  Launcher launcher() const { return launcher_; }
  // The word that names the launcher; nullptr where there is none.
  const Word* launcher_word() const;
  // The value of `--nproc-per-node 8`, `--nproc_per_node=8`: `name` has dashes and no leading ones.
  // A flag without a value yields the flag's own word.
  struct Option {
    std::string value;
    const Word* word = nullptr;
  };
  std::optional<Option> option(std::string_view name) const;
  // The first of several names that is there.
  std::optional<Option> option(std::initializer_list<std::string_view> names) const;
  // The Python file that is run, if it is named.
  const Word* script() const;

 private:
  void add_list(Ref list);
  void add_script(const YamlNode& node);
  void find_launcher();

  std::vector<Word> words_;
  std::vector<const YamlNode*> scripts_;
  bool has_shell_ = false;
  Launcher launcher_ = Launcher::kNone;
  size_t launcher_at_ = 0;
};

// A plain count of at most a billion; nothing for "auto", "$N" and the like.
std::optional<int64_t> count_of(std::string_view text);

}  // namespace shanty::lint
