#pragma once

#include <memory>
#include <optional>

#include "cli/verb.h"

namespace CLI {
class App;
}

namespace shanty {

struct DeleteApp {
  void operator()(CLI::App* app) const;
};
using AppPtr = std::unique_ptr<CLI::App, DeleteApp>;

// A command line for `verb`: its name, summary and examples are in the help. The verb adds its
// options (including <CLI/CLI.hpp> itself) and calls parse_arguments.
AppPtr make_app(const Verb& verb);

// Parses. Returns an exit code when the verb is over: help was printed (0) or the arguments were
// wrong (2, with the reason on stderr). Returns nothing when the verb should go on.
std::optional<int> parse_arguments(CLI::App& app, int argc, char** argv);

}  // namespace shanty
