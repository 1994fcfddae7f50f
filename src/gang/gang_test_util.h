#pragma once

#include <string>
#include <vector>

#include "gang/agent_state.h"
#include "gang/coordinator_state.h"

namespace shanty::gang {

// Drives one state machine by hand in tests: a clock, and what the last step asked for.
template <typename Action>
struct Asked {
  std::vector<Action> actions;

  template <typename T>
  std::vector<T> all() const {
    std::vector<T> found;
    for (const Action& action : actions) {
      if (const T* one = std::get_if<T>(&action)) found.push_back(*one);
    }
    return found;
  }
  template <typename T>
  bool has() const {
    return !all<T>().empty();
  }
  template <typename T>
  T last() const {
    const auto found = all<T>();
    return found.empty() ? T{} : found.back();
  }
};

inline Now at_ms(int64_t ms) {
  return {.mono = {ms * 1'000'000}, .unix_ns = 1'700'000'000'000'000'000 + ms * 1'000'000};
}

}  // namespace shanty::gang
