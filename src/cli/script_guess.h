#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "job/job.h"

namespace shanty {

// A value read off a training script, with the words that explain where it was seen.
template <typename T>
struct Guess {
  T value;
  std::string from;  // "line 12: the default of --batch-size"
};

struct ScriptGuesses {
  Guess<Framework> framework;
  std::optional<Guess<std::string>> batch_size;
  std::optional<Guess<std::string>> learning_rate;
  std::optional<Guess<std::string>> loader_workers;
  std::optional<Guess<std::string>> steps;
};

// Looks at the text only; nothing is run. Comments are not looked at.
ScriptGuesses guess_from_script(std::string_view script);

}  // namespace shanty
