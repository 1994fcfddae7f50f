#include "lint/manifest/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty::lint {
namespace {

using testing::ElementsAre;

// Keeps the tree that the words point into.
struct Parsed {
  YamlNode root;
  CommandLine line;
};

Parsed parse(std::string_view yaml) {
  ParsedYaml parsed = parse_documents(yaml, "t.yaml");
  EXPECT_TRUE(parsed.diagnostics.empty());
  Parsed out{std::move(parsed.documents.at(0)), {}};
  const Ref root(out.root);
  out.line = CommandLine(root["command"], root["args"]);
  return out;
}

std::vector<std::string> texts(const std::vector<Word>& words) {
  std::vector<std::string> out;
  for (const Word& word : words) out.push_back(word.text);
  return out;
}

TEST(CommandLine, CommandAndArgsAreOneLine) {
  const Parsed p = parse("command: [torchrun, --nproc_per_node=8]\nargs: [train.py, --lr, '1']\n");
  EXPECT_EQ(p.line.launcher(), Launcher::kTorchrun);
  EXPECT_EQ(p.line.option("nproc-per-node")->value, "8");
  EXPECT_EQ(p.line.option("lr")->value, "1");
  EXPECT_EQ(p.line.script()->text, "train.py");
  EXPECT_FALSE(p.line.has_shell());
}

TEST(CommandLine, AScriptForAShellIsSplit) {
  const Parsed p = parse(
      "command: [bash, -lc]\nargs:\n  - |\n    set -e  # no options --x here\n"
      "    python -m torch.distributed.run --nnodes 2 \\\n      'my train.py' \"--a b\" > log "
      "2>&1\n"
      "    echo done; exit 0\n");
  EXPECT_TRUE(p.line.has_shell());
  EXPECT_EQ(p.line.launcher(), Launcher::kTorchrun);
  EXPECT_EQ(p.line.launcher_word()->text, "torch.distributed.run");
  EXPECT_THAT(texts(p.line.words()),
              ElementsAre("bash", "-lc", ";", "set", "-e", ";", "python", "-m",
                          "torch.distributed.run", "--nnodes", "2", "my train.py", "--a b", ">",
                          "log", "2>&1", ";", "echo", "done", ";", "exit", "0", ";"));
  EXPECT_FALSE(p.line.option("x"));
}

TEST(CommandLine, LaunchersAreKnownByTheirPrograms) {
  EXPECT_EQ(parse("command: [accelerate, launch, a.py]").line.launcher(), Launcher::kAccelerate);
  EXPECT_EQ(parse("command: [/opt/bin/deepspeed, a.py]").line.launcher(), Launcher::kDeepspeed);
  EXPECT_EQ(parse("command: [mpirun, python, a.py]").line.launcher(), Launcher::kMpirun);
  EXPECT_EQ(parse("command: [python3.11, -u, a.py]").line.launcher(), Launcher::kPython);
  EXPECT_EQ(parse("command: [sh, -c, 'python prep.py && torchrun a.py']").line.launcher(),
            Launcher::kTorchrun);
  EXPECT_EQ(parse("command: [sleep, '5']").line.launcher(), Launcher::kNone);
}

TEST(CommandLine, AFlagHasNoValue) {
  const Parsed p = parse("command: [torchrun, --standalone, --nnodes, '2']");
  EXPECT_EQ(p.line.option("standalone")->value, "");
  EXPECT_EQ(p.line.option({"nope", "nnodes"})->value, "2");
}

TEST(CommandLine, WhatIsNoListIsNothing) {
  EXPECT_TRUE(parse("command: torchrun train.py").line.empty());
  EXPECT_TRUE(parse("command: []").line.empty());
}

}  // namespace
}  // namespace shanty::lint
