#include "lint/dockerfile.h"

#include <algorithm>
#include <map>

#include "lint/text_places.h"

namespace shanty::lint {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                            [](char x, char y) { return upper(x) == upper(y); });
}

// Characters of a logical line with their offsets in the file: continuations are joined, comment
// lines between them are dropped.
struct Character {
  char c;
  size_t offset;
};
using LogicalLine = std::vector<Character>;

class LineReader {
 public:
  explicit LineReader(std::string_view text) : text_(text) {}

  bool next(LogicalLine& line) {
    line.clear();
    while (at_ < text_.size()) {
      const size_t end = std::min(text_.find('\n', at_), text_.size());
      const std::string_view physical = text_.substr(at_, end - at_);
      const size_t start = at_;
      at_ = end + 1;
      if (is_comment_or_blank(physical)) {
        if (line.empty()) continue;
        if (physical.find('#') != physical.npos || physical.empty()) continue;
      }
      if (!append(physical, start, line)) return true;
    }
    return !line.empty();
  }

  // The body of a heredoc whose last line is `mark`.
  std::string heredoc(std::string_view mark) {
    const size_t start = std::min(at_, text_.size());
    while (at_ < text_.size()) {
      const size_t begin = at_;
      const size_t end = std::min(text_.find('\n', at_), text_.size());
      at_ = end + 1;
      std::string_view physical = text_.substr(begin, end - begin);
      while (!physical.empty() && is_blank(physical.front())) physical.remove_prefix(1);
      while (!physical.empty() && is_blank(physical.back())) physical.remove_suffix(1);
      if (physical == mark) return std::string(text_.substr(start, begin - start));
    }
    return std::string(text_.substr(start));
  }

 private:
  static bool is_comment_or_blank(std::string_view line) {
    const size_t first = line.find_first_not_of(" \t\r");
    return first == line.npos || line[first] == '#';
  }

  // True when the line goes on.
  static bool append(std::string_view physical, size_t start, LogicalLine& line) {
    size_t end = physical.size();
    while (end > 0 && is_blank(physical[end - 1])) --end;
    const bool goes_on = end > 0 && physical[end - 1] == '\\';
    if (goes_on) --end;
    for (size_t i = 0; i < end; ++i) line.push_back({physical[i], start + i});
    if (goes_on) line.push_back({' ', start + end});
    return goes_on;
  }

  std::string_view text_;
  size_t at_ = 0;
};

// Words by blanks; quotes hold a word together and are dropped; ; && || | stand alone.
std::vector<DockerWord> split_words(const LogicalLine& line, size_t from, size_t limit) {
  std::vector<DockerWord> words;
  DockerWord word;
  bool is_open = false;
  char quote = '\0';
  const auto close = [&] {
    if (is_open) words.push_back(std::move(word));
    word = {};
    is_open = false;
  };
  const auto open = [&](size_t offset) {
    if (!is_open) word.offset = offset;
    is_open = true;
  };
  for (size_t i = from; i < line.size() && words.size() < limit; ++i) {
    const auto [c, offset] = line[i];
    if (quote != '\0') {
      if (c == quote) quote = '\0';
      if (quote != '\0') word.text += c;
    } else if (c == '"' || c == '\'') {
      open(offset);
      quote = c;
    } else if (is_blank(c)) {
      close();
    } else if (c == ';' || c == '|' || (c == '&' && i + 1 < line.size() && line[i + 1].c == '&')) {
      close();
      const bool is_double = c != ';' && i + 1 < line.size() && line[i + 1].c == c;
      words.push_back({std::string(is_double ? 2 : 1, c), offset});
      if (is_double) ++i;
    } else {
      open(offset);
      word.text += c;
    }
  }
  close();
  return words;
}

// ["a", "b"] as words; false when it is no such list.
bool split_exec_form(const LogicalLine& line, size_t from, std::vector<DockerWord>& words) {
  size_t i = from;
  while (i < line.size() && is_blank(line[i].c)) ++i;
  if (i >= line.size() || line[i].c != '[') return false;
  for (++i; i < line.size(); ++i) {
    const auto [c, offset] = line[i];
    if (c == ']') return true;
    if (c != '"') continue;
    DockerWord word{"", offset};
    for (++i; i < line.size() && line[i].c != '"'; ++i) {
      if (line[i].c == '\\' && i + 1 < line.size()) ++i;
      word.text += line[i].c;
    }
    words.push_back(std::move(word));
  }
  return false;
}

std::vector<std::string> heredoc_marks(const std::vector<DockerWord>& words) {
  std::vector<std::string> marks;
  for (const DockerWord& word : words) {
    if (word.text.substr(0, 2) != "<<" || word.text.size() < 3) continue;
    std::string mark = word.text.substr(word.text[2] == '-' ? 3 : 2);
    if (!mark.empty() && mark.find_first_of("<(") == mark.npos) marks.push_back(std::move(mark));
  }
  return marks;
}

using Arguments = std::map<std::string, std::string>;

// $NAME, ${NAME} and ${NAME:-default} of `text` where they are known.
std::string substituted(std::string_view text, const Arguments& arguments) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$') {
      out += text[i];
      continue;
    }
    const bool braced = i + 1 < text.size() && text[i + 1] == '{';
    const size_t start = i + (braced ? 2 : 1);
    size_t end = start;
    while (end < text.size() &&
           (isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_'))
      ++end;
    const size_t close = braced ? text.find('}', end) : end;
    const auto known = arguments.find(std::string(text.substr(start, end - start)));
    const bool has_default = braced && close != text.npos && text.substr(end, 2) == ":-";
    if (close == text.npos || (known == arguments.end() && !has_default)) {
      out += text[i];
      continue;
    }
    out += known != arguments.end() ? known->second
                                    : std::string(text.substr(end + 2, close - end - 2));
    i = braced ? close : end - 1;
  }
  return out;
}

class Reader {
 public:
  explicit Reader(const Source& source) : lines_(source.text) { file_.source = &source; }

  Dockerfile read() {
    LogicalLine line;
    while (file_.instructions.size() < kMaxDockerInstructions && lines_.next(line)) take(line);
    collect_env();
    return std::move(file_);
  }

 private:
  void take(const LogicalLine& line) {
    size_t i = 0;
    while (i < line.size() && is_blank(line[i].c)) ++i;
    if (i >= line.size()) return;
    DockerInstruction instruction{.offset = line[i].offset};
    for (; i < line.size() && !is_blank(line[i].c); ++i) instruction.name += upper(line[i].c);
    while (i < line.size() && is_blank(line[i].c)) ++i;
    for (size_t j = i; j < line.size(); ++j) instruction.text += line[j].c;
    instruction.is_exec_form = split_exec_form(line, i, instruction.words);
    if (!instruction.is_exec_form) {
      instruction.words = split_words(line, i, kMaxDockerWords - std::min(words_, kMaxDockerWords));
    }
    words_ += instruction.words.size();
    for (const std::string& mark : heredoc_marks(instruction.words)) {
      instruction.text += "\n" + lines_.heredoc(mark);
    }
    if (instruction.name == "FROM") take_from(instruction);
    if (instruction.name == "ARG" && file_.stages.empty()) take_arguments(instruction);
    instruction.stage = static_cast<int>(file_.stages.size()) - 1;
    file_.instructions.push_back(std::move(instruction));
  }

  void take_arguments(const DockerInstruction& instruction) {
    for (const DockerWord& word : instruction.words) {
      const size_t equals = word.text.find('=');
      if (equals != word.text.npos)
        arguments_[word.text.substr(0, equals)] =
            substituted(word.text.substr(equals + 1), arguments_);
    }
  }

  void take_from(const DockerInstruction& instruction) {
    DockerStage stage;
    const DockerWord* previous = nullptr;
    for (const DockerWord& word : instruction.words) {
      if (word.text.substr(0, 2) == "--") continue;
      if (stage.image.empty()) {
        stage.image = substituted(word.text, arguments_);
        stage.offset = word.offset;
      } else if (previous != nullptr && equals_ignoring_case(previous->text, "as")) {
        stage.name = word.text;
      }
      previous = &word;
    }
    file_.stages.push_back(std::move(stage));
  }

  void collect_env() {
    const TextPlaces places(file_.source->text);
    for (const DockerInstruction* instruction : file_.final_instructions()) {
      if (instruction->name == "ENV") add_env(*instruction, places);
    }
  }

  void add_env(const DockerInstruction& instruction, const TextPlaces& places) {
    const auto& words = instruction.words;
    if (words.size() >= 2 && words[0].text.find('=') == std::string::npos) {  // ENV NAME value
      add_variable(words[0].text, words[1].text, words[0].offset, words[1].offset, places);
      return;
    }
    for (const DockerWord& word : words) {
      const size_t equals = word.text.find('=');
      if (equals == std::string::npos) continue;
      add_variable(word.text.substr(0, equals), word.text.substr(equals + 1), word.offset,
                   word.offset + equals + 1, places);
    }
  }

  void add_variable(std::string name, std::string value, size_t offset, size_t value_offset,
                    const TextPlaces& places) {
    file_.env.push_back({.name = std::move(name),
                         .value = std::move(value),
                         .place = places.place(offset),
                         .value_place = places.place(value_offset)});
  }

  LineReader lines_;
  Dockerfile file_;
  Arguments arguments_;
  size_t words_ = 0;
};

// The stage that `image` names among those before `index`; -1: none.
int stage_named(const std::vector<DockerStage>& stages, const std::string& image, int index) {
  for (int i = index - 1; i >= 0; --i) {
    const std::string& name = stages[static_cast<size_t>(i)].name;
    if (!name.empty() && equals_ignoring_case(name, image)) return i;
  }
  return -1;
}

// The last stage and those below it, the last one first.
std::vector<int> final_stages(const Dockerfile& file) {
  std::vector<int> out;
  int index = static_cast<int>(file.stages.size()) - 1;
  while (index >= 0) {
    out.push_back(index);
    index = stage_named(file.stages, file.stages[static_cast<size_t>(index)].image, index);
  }
  return out;
}

}  // namespace

std::vector<const DockerInstruction*> Dockerfile::final_instructions() const {
  const std::vector<int> wanted = final_stages(*this);
  std::vector<const DockerInstruction*> out;
  for (const DockerInstruction& instruction : instructions) {
    if (std::find(wanted.begin(), wanted.end(), instruction.stage) != wanted.end())
      out.push_back(&instruction);
  }
  return out;
}

const DockerStage* Dockerfile::base() const {
  const std::vector<int> wanted = final_stages(*this);
  return wanted.empty() ? nullptr : &stages[static_cast<size_t>(wanted.back())];
}

Dockerfile read_dockerfile(const Source& source) { return Reader(source).read(); }

}  // namespace shanty::lint
