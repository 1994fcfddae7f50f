#pragma once

#include <string_view>

#include "doctor/case.h"

namespace shanty {

// What a rank that did not join a collective was doing instead, as far as its lines tell.
enum class Doing {
  kUnknown,
  kFailed,    // it raised, was killed, or its pod went away
  kLeft,      // it ended with success
  kFinished,  // it ran out of data or left the loop
  kBusy,      // saving, evaluating, tokenising, compiling
  kLoading,   // its stack is in the data loader
  kInNccl,    // its stack is inside NCCL
};

struct Behaviour {
  Doing doing = Doing::kUnknown;
  const Record* line = nullptr;
  const StackFact* stack = nullptr;
  std::string what;  // "saving checkpoint", for messages
};

Behaviour behaviour_of(const Case& of, int rank);

// A thread that waits for the next batch: in PyTorch's loader, or in the queue of another one.
bool waits_for_data(const StackFact& stack);

// An exception that is the program's own, not one that tells that another rank is gone.
bool is_own_exception(const Record& exception);

}  // namespace shanty
