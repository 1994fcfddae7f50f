#include "lint/manifest/command_line.h"

#include <algorithm>
#include <charconv>

namespace shanty::lint {
namespace {

constexpr size_t kMaxWords = 10'000;
constexpr int64_t kLargestCount = 1'000'000'000;  // products of two stay within 64 bits

std::string_view base_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? path : path.substr(slash + 1);
}

bool is_shell(std::string_view word) {
  const std::string_view name = base_name(word);
  return name == "sh" || name == "bash" || name == "dash" || name == "zsh" || name == "ash";
}

// "-c", "-lc", "-ec", "-xeuo" is none.
bool is_command_flag(std::string_view word) {
  return word.size() >= 2 && word[0] == '-' && word[1] != '-' && word.back() == 'c';
}

bool is_separator(std::string_view word) {
  return word == ";" || word == "&&" || word == "||" || word == "|" || word == "&";
}

bool is_python(std::string_view word) {
  const std::string_view name = base_name(word);
  if (name.substr(0, 6) != "python") return false;
  return name.find_first_not_of("0123456789.", 6) == name.npos;
}

std::string normal_option(std::string_view word) {
  std::string name;
  for (const char c : word.substr(std::min(word.find_first_not_of('-'), word.size()))) {
    name += c == '_' ? '-' : c;
  }
  return name;
}

// Splits a script for a shell into words; separators become words of their own, and so does the
// end of a line.
class ShellSplitter {
 public:
  ShellSplitter(const YamlNode& node, std::vector<Word>& out) : node_(node), out_(out) {}

  void split() {
    const std::string_view text = node_.text;
    for (at_ = 0; at_ < text.size() && out_.size() < kMaxWords; ++at_) step(text);
    end_word();
  }

 private:
  void step(std::string_view text) {
    const char c = text[at_];
    if (quote_ != '\0') return step_quoted(text, c);
    if (c == '\\' && at_ + 1 < text.size()) {
      ++at_;
      if (text[at_] != '\n') add(text[at_]);
    } else if (c == '\'' || c == '"') {
      begin();
      quote_ = c;
    } else if (c == '#' && !in_word_) {
      at_ = std::min(text.find('\n', at_), text.size()) - 1;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      end_word();
    } else if (c == '\n' || c == ';') {
      separate(";");
    } else if (c == '&' || c == '|') {
      step_operator(text, c);
    } else {
      add(c);
    }
  }

  void step_quoted(std::string_view text, char c) {
    if (c == quote_) {
      quote_ = '\0';
    } else if (c == '\\' && quote_ == '"' && at_ + 1 < text.size()) {
      ++at_;
      if (text[at_] != '\n') add(text[at_]);
    } else {
      add(c);
    }
  }

  // `2>&1` and `&>log` are no separators.
  void step_operator(std::string_view text, char c) {
    const bool after_redirect = at_ > 0 && text[at_ - 1] == '>';
    const bool before_redirect = at_ + 1 < text.size() && text[at_ + 1] == '>';
    if (c == '&' && (after_redirect || before_redirect)) return add(c);
    const bool is_double = at_ + 1 < text.size() && text[at_ + 1] == c;
    separate(std::string(is_double ? 2 : 1, c));
    if (is_double) ++at_;
  }

  void begin() {
    if (!in_word_) start_ = at_;
    in_word_ = true;
  }
  void add(char c) {
    begin();
    word_ += c;
  }
  void end_word() {
    if (in_word_) out_.push_back({std::move(word_), &node_, start_});
    word_.clear();
    in_word_ = false;
  }
  void separate(std::string separator) {
    end_word();
    const bool is_doubled = out_.empty() || is_separator(out_.back().text);
    if (!is_doubled) out_.push_back({std::move(separator), &node_, at_});
  }

  const YamlNode& node_;
  std::vector<Word>& out_;
  size_t at_ = 0;
  size_t start_ = 0;
  std::string word_;
  bool in_word_ = false;
  char quote_ = '\0';
};

Launcher launcher_named(std::string_view word) {
  const std::string_view name = base_name(word);
  if (name == "torchrun" || name == "torch.distributed.run" || name == "torch.distributed.launch" ||
      word.ends_with("torch/distributed/run.py") || word.ends_with("torch/distributed/launch.py"))
    return Launcher::kTorchrun;
  if (name == "deepspeed") return Launcher::kDeepspeed;
  if (name == "mpirun" || name == "mpiexec" || name == "horovodrun") return Launcher::kMpirun;
  return Launcher::kNone;
}

}  // namespace

CommandLine::CommandLine(Ref command, Ref args) {
  add_list(command);
  add_list(args);
  find_launcher();
}

// After a shell with -c, the next value is a script, whichever of the lists holds it.
void CommandLine::add_list(Ref list) {
  if (!list.is_sequence()) return;
  for (const YamlNode& item : list.items()) {
    if (words_.size() >= kMaxWords) return;
    const bool takes_script =
        scripts_.empty() && words_.size() >= 2 && has_shell_ && is_command_flag(words_.back().text);
    if (takes_script) {
      add_script(item);
      continue;
    }
    words_.push_back({item.text, &item, 0});
    has_shell_ = has_shell_ || (words_.size() == 1 && is_shell(item.text));
  }
}

void CommandLine::add_script(const YamlNode& node) {
  scripts_.push_back(&node);
  words_.push_back({";", &node, 0});
  ShellSplitter(node, words_).split();
}

void CommandLine::find_launcher() {
  for (size_t i = 0; i < words_.size(); ++i) {
    const bool is_accelerate = base_name(words_[i].text) == "accelerate" && i + 1 < words_.size() &&
                               words_[i + 1].text == "launch";
    Launcher named = is_accelerate ? Launcher::kAccelerate : launcher_named(words_[i].text);
    const bool runs_file = is_python(words_[i].text) && i + 1 < words_.size() &&
                           !is_separator(words_[i + 1].text) && words_[i + 1].text != "-c";
    if (named == Launcher::kNone && runs_file) named = Launcher::kPython;
    // What comes after mpirun is what mpirun starts.
    if (named == Launcher::kNone) continue;
    if (launcher_ == Launcher::kNone || launcher_ == Launcher::kPython) {
      launcher_ = named;
      launcher_at_ = i;
    }
    if (launcher_ != Launcher::kPython) return;
  }
}

const Word* CommandLine::launcher_word() const {
  return launcher_ == Launcher::kNone ? nullptr : &words_[launcher_at_];
}

std::optional<CommandLine::Option> CommandLine::option(std::string_view name) const {
  for (size_t i = 0; i < words_.size(); ++i) {
    const std::string_view text = words_[i].text;
    if (text.size() < 2 || text[0] != '-') continue;
    const size_t equals = text.find('=');
    if (normal_option(text.substr(0, equals)) != name) continue;
    if (equals != text.npos) return Option{std::string(text.substr(equals + 1)), &words_[i]};
    const bool has_value = i + 1 < words_.size() && !is_separator(words_[i + 1].text) &&
                           words_[i + 1].text.substr(0, 2) != "--";
    return Option{has_value ? words_[i + 1].text : "", &words_[i]};
  }
  return {};
}

std::optional<CommandLine::Option> CommandLine::option(
    std::initializer_list<std::string_view> names) const {
  for (std::string_view name : names) {
    if (auto found = option(name)) return found;
  }
  return {};
}

const Word* CommandLine::script() const {
  for (const Word& word : words_) {
    if (word.text.ends_with(".py")) return &word;
  }
  return nullptr;
}

std::optional<int64_t> count_of(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = !text.empty() && error == std::errc() && end == text.data() + text.size();
  if (!is_whole || value > kLargestCount || value < -kLargestCount) return {};
  return value;
}

}  // namespace shanty::lint
