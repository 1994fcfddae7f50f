#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "run/run_dir.h"

namespace CLI {
class App;
}

namespace shanty {

// The RUN argument that the reading verbs share.
void add_run_argument(CLI::App& app, std::string& spec);
// The run it names; says on stderr why there is none, for `verb`.
Result<RunDir> choose_run(std::string_view verb, const std::string& spec);

}  // namespace shanty
