#pragma once

#include <string_view>

namespace shanty {

// One verb of the command line. src/cli/verbs/foo_bar.cc defines `extern const Verb kFooBarVerb`;
// the table of all verbs is generated from the file names.
struct Verb {
  std::string_view name;
  std::string_view summary;   // one line, lower case, no full stop
  std::string_view examples;  // shown under --help: lines of "  shanty foo ..." with their purpose
  bool hidden = false;        // left out of the overview
  int (*run)(int argc, char** argv) = nullptr;  // argv[0] is the verb; returns an exit code
};

}  // namespace shanty
