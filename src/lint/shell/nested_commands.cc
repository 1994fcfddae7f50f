#include "lint/shell/nested_commands.h"

#include <utility>

namespace shanty::lint {

namespace {

constexpr size_t kMaxCommands = 200;  // in one text
constexpr size_t kMaxWords = 1000;    // of all its commands

class Splitter {
 public:
  std::vector<std::vector<std::string>> split(std::string_view text) {
    for (size_t at = 0; at < text.size() && words_ < kMaxWords; ++at) {
      const char c = text[at];
      if (c == '\\' && at + 1 < text.size()) {
        ++at;
        if (text[at] != '\n') word_ += text[at];
      } else if (is_held(c)) {
        if (c != '"' && c != '\'') word_ += c;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        end_word();
      } else if (c == '\n' || c == ';' || c == '&' || c == '|') {
        end_command();
      } else {
        word_ += c;
      }
    }
    end_command();
    return std::move(commands_);
  }

 private:
  // Whether `c` opens, closes or stands within something that holds words together.
  bool is_held(char c) {
    const bool was_held = quote_ != '\0' || depth_ > 0;
    if (quote_ != '\0') {
      if (c == quote_) quote_ = '\0';
      return true;
    }
    if (c == '"' || c == '\'' || c == '`') {
      quote_ = c;
      return true;
    }
    if (c == '(') ++depth_;
    if (c == ')' && depth_ > 0) --depth_;
    return was_held || depth_ > 0;
  }

  void end_word() {
    if (word_.empty()) return;
    command_.push_back(std::exchange(word_, {}));
    ++words_;
  }

  void end_command() {
    end_word();
    if (!command_.empty() && commands_.size() < kMaxCommands) commands_.push_back(command_);
    command_.clear();
  }

  std::vector<std::vector<std::string>> commands_;
  std::vector<std::string> command_;
  std::string word_;
  size_t words_ = 0;
  char quote_ = '\0';
  int depth_ = 0;
};

}  // namespace

std::vector<std::vector<std::string>> commands_in(std::string_view text) {
  return Splitter().split(text);
}

}  // namespace shanty::lint
