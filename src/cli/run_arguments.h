#pragma once

#include <variant>

#include "cli/verb.h"
#include "launch/run_options.h"

namespace shanty {

// The command line of `shanty run` without the program and the verb, with torchrun's PET_*
// variables as defaults. The exit code instead when there is nothing to run: help was asked for, or
// the line is wrong, which is told on stderr.
std::variant<RunOptions, int> read_run_arguments(const Verb& verb, int argc, char** argv);

}  // namespace shanty
