#include "cli/run_arguments.h"

#include <cstdlib>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/exit_codes.h"

namespace shanty {
namespace {

using testing::ElementsAre;

std::variant<RunOptions, int> read(std::vector<std::string> words) {
  words.insert(words.begin(), "run");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return read_run_arguments({.name = "run"}, static_cast<int>(argv.size()), argv.data());
}

RunOptions options(const std::vector<std::string>& words) {
  auto read_options = read(words);
  EXPECT_TRUE(std::holds_alternative<RunOptions>(read_options));
  if (auto* found = std::get_if<RunOptions>(&read_options)) return std::move(*found);
  return {};
}

int exit_code(const std::vector<std::string>& words) {
  const auto read_options = read(words);
  const int* code = std::get_if<int>(&read_options);
  return code != nullptr ? *code : -1;
}

// Sets a variable for as long as it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

TEST(RunArguments, OptionsMayBeSpelledWithDashesOrUnderscores) {
  for (const char* spelling : {"--nproc-per-node", "--nproc_per_node"}) {
    EXPECT_EQ(options({spelling, "4", "x.py"}).nproc_per_node, "4");
    EXPECT_EQ(options({std::string(spelling) + "=4", "x.py"}).nproc_per_node, "4");
  }
  EXPECT_TRUE(options({"--no-python", "x"}).no_python);
  EXPECT_TRUE(options({"--no_python", "x"}).no_python);
}

TEST(RunArguments, TorchrunsOptionsMayBeCutShortWhileTheyAreTold) {
  const RunOptions o = options({"--nnode", "2", "--nproc_per=4", "--standalon", "--max-r", "3",
                                "--inject", "kill:rank=0", "x.py", "--nnode", "9"});
  EXPECT_EQ(o.nnodes, "2");
  EXPECT_EQ(o.nproc_per_node, "4");
  EXPECT_TRUE(o.standalone);
  EXPECT_EQ(o.max_restarts, 3);
  EXPECT_THAT(o.injects, ElementsAre("kill:rank=0"));
  EXPECT_THAT(o.args, ElementsAre("--nnode", "9"));
  for (const char* unclear : {"--rdzv", "--m", "--", "--nnodesx"}) {
    EXPECT_EQ(exit_code({unclear, "2"}), unclear == std::string("--") ? -1 : kExitUsage) << unclear;
  }
}

TEST(RunArguments, WhatFollowsTheScriptIsTheScripts) {
  const RunOptions o = options(
      {"--max-restarts=3", "x.py", "--nnodes", "9", "-m", "--help", "--", "--max_restarts=1"});
  EXPECT_EQ(o.target, "x.py");
  EXPECT_THAT(o.args, ElementsAre("--nnodes", "9", "-m", "--help", "--", "--max_restarts=1"));
  EXPECT_EQ(o.nnodes, "");
  EXPECT_FALSE(o.module);
  EXPECT_EQ(o.max_restarts, 3);
  EXPECT_EQ(options({"--", "x.py", "a"}).target, "x.py");
}

TEST(RunArguments, TorchrunsVariablesAreDefaultsOnly) {
  const Variable nodes("PET_NNODES", "3");
  const Variable restarts("PET_MAX_RESTARTS", "7");
  const Variable standalone("PET_STANDALONE", "1");
  const Variable no_python("PET_NO_PYTHON", "0");
  const RunOptions o = options({"--nnodes", "2", "x.py"});
  EXPECT_EQ(o.nnodes, "2");
  EXPECT_EQ(o.max_restarts, 7);
  EXPECT_TRUE(o.standalone);
  EXPECT_FALSE(o.no_python);
}

TEST(RunArguments, TheLastOfRepeatedOptionsCounts) {
  EXPECT_EQ(options({"--nnodes=1", "--nnodes", "2", "x.py"}).nnodes, "2");
  EXPECT_THAT(options({"--inject", "a", "--inject", "b", "x.py"}).injects, ElementsAre("a", "b"));
}

TEST(RunArguments, WrongLinesAreUsageErrors) {
  EXPECT_EQ(exit_code({}), kExitUsage);
  EXPECT_EQ(exit_code({"--nnodes"}), kExitUsage);
  EXPECT_EQ(exit_code({"--node-rank", "one", "x.py"}), kExitUsage);
  EXPECT_EQ(exit_code({"--no-such-option", "x.py"}), kExitUsage);
  EXPECT_EQ(exit_code({"--help"}), kExitDone);
}

}  // namespace
}  // namespace shanty
