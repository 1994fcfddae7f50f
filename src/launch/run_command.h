#pragma once

#include "launch/run_config.h"

namespace shanty {

// `shanty run` after its command line was understood: prepares the run directory, runs the job to
// its end, shows it, prints the report. `argv` is the command line as typed, for the record.
// Returns the verb's exit code.
int run_command(const RunConfig& config, const std::vector<std::string>& argv);

}  // namespace shanty
