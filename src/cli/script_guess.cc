#include "cli/script_guess.h"

#include <algorithm>

#include <fmt/format.h>
#include <re2/re2.h>

namespace shanty {
namespace {

// Blanks out comments so that places stay where they are. A "#" in a string ends the line as
// well, which costs a guess at most.
std::string without_comments(std::string_view script) {
  std::string out(script);
  bool in_comment = false;
  for (char& c : out) {
    if (c == '\n') in_comment = false;
    if (c == '#') in_comment = true;
    if (in_comment) c = ' ';
  }
  return out;
}

re2::StringPiece piece(const std::string& text) { return {text.data(), text.size()}; }

size_t line_of(const std::string& text, const char* at) {
  const std::string_view before(text.data(), static_cast<size_t>(at - text.data()));
  return 1 + static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
}

std::optional<size_t> line_with(const std::string& text, const char* pattern) {
  const re2::RE2 re(pattern);
  re2::StringPiece match;
  if (!re.Match(piece(text), 0, text.size(), re2::RE2::UNANCHORED, &match, 1)) return std::nullopt;
  return line_of(text, match.data());
}

struct Pattern {
  std::string text;         // group 1 is the name, group 2 the value
  std::string_view origin;  // "{name}" stands for group 1
};

std::optional<Guess<std::string>> first_match(const std::string& text,
                                              std::initializer_list<Pattern> patterns) {
  for (const Pattern& pattern : patterns) {
    const re2::RE2 re(pattern.text);
    re2::StringPiece groups[3];
    if (!re.Match(piece(text), 0, text.size(), re2::RE2::UNANCHORED, groups, 3)) continue;
    const std::string name(groups[1].data(), groups[1].size());
    return Guess<std::string>{
        std::string(groups[2].data(), groups[2].size()),
        fmt::format("line {}: {}", line_of(text, groups[1].data()),
                    fmt::format(fmt::runtime(pattern.origin), fmt::arg("name", name)))};
  }
  return std::nullopt;
}

constexpr const char* kWhole = "([0-9][0-9_]*)";
constexpr const char* kReal = "([0-9]*\\.?[0-9]+(?:[eE][-+]?[0-9]+)?)";

// argparse and click defaults, then plain assignments and keyword arguments.
std::optional<Guess<std::string>> find_number(const std::string& text, const std::string& option,
                                              const std::string& variable, const char* number) {
  return first_match(
      text,
      {{fmt::format(R"((--(?:{}))["'](?:[^()]|\([^()]*\))*?\bdefault\s*=\s*{}\b)", option, number),
        "the default of {name}"},
       {fmt::format(R"((?im)^\s*((?:{})[ \t]*(?::[ \t]*\w+[ \t]*)?=)[ \t]*{}\b)", variable, number),
        "{name}"},
       {fmt::format(R"([(,]\s*((?:{})\s*=)\s*{}\b)", variable, number), "{name}"}});
}

Guess<Framework> guess_framework(const std::string& text) {
  if (const auto line = line_with(text, R"(\b(?:FullyShardedDataParallel|fully_shard|FSDP)\b)")) {
    return {Framework::kFsdp, fmt::format("line {}: FSDP", *line)};
  }
  if (const auto line = line_with(text, R"(\b(?:DistributedDataParallel|DDP)\b)")) {
    return {Framework::kDdp, fmt::format("line {}: DistributedDataParallel", *line)};
  }
  return {Framework::kOther, "neither DistributedDataParallel nor FSDP was found"};
}

}  // namespace

ScriptGuesses guess_from_script(std::string_view script) {
  const std::string text = without_comments(script);
  return {
      .framework = guess_framework(text),
      .batch_size =
          find_number(text, "(?:per[-_]device[-_]|micro[-_]|train[-_])?batch(?:[-_]size)?",
                      "(?:micro_|train_|per_device_)?batch_size", kWhole),
      .learning_rate = find_number(text, "lr|learning[-_]rate", "lr|learning_rate", kReal),
      .loader_workers = find_number(text, "(?:num[-_])?workers", "num_workers", kWhole),
      .steps = find_number(text, "(?:max[-_]|num[-_]|total[-_])?(?:steps|iters)",
                           "(?:max_|num_|total_)(?:steps|iters)|steps", kWhole),
  };
}

}  // namespace shanty
