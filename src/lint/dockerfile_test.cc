#include "lint/dockerfile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty::lint {
namespace {

using testing::ElementsAre;

// Keeps the source that the file points at.
struct Parsed {
  Source source;
  Dockerfile file;
};

std::unique_ptr<Parsed> parse(std::string text) {
  auto parsed = std::make_unique<Parsed>();
  parsed->source = {"Dockerfile", std::move(text), SourceKind::kDockerfile};
  parsed->file = read_dockerfile(parsed->source);
  return parsed;
}

std::vector<std::string> texts(const std::vector<DockerWord>& words) {
  std::vector<std::string> out;
  for (const DockerWord& word : words) out.push_back(word.text);
  return out;
}

TEST(Dockerfile, LinesThatGoOnAreOneInstruction) {
  const auto p =
      parse("FROM a\nrun apt-get update && \\\n  # why\n\n  apt-get install -y x;true\n");
  ASSERT_EQ(p->file.instructions.size(), 2u);
  EXPECT_EQ(p->file.instructions[1].name, "RUN");
  EXPECT_THAT(texts(p->file.instructions[1].words),
              ElementsAre("apt-get", "update", "&&", "apt-get", "install", "-y", "x", ";", "true"));
}

TEST(Dockerfile, WordsKnowWhereTheyStand) {
  const auto p = parse("FROM a\r\nRUN pip install \\\r\n    'torch==2'\r\n");
  const DockerWord& word = p->file.instructions.at(1).words.at(2);
  EXPECT_EQ(word.text, "torch==2");
  EXPECT_EQ(p->source.text.substr(word.offset, 10), "'torch==2'");
}

TEST(Dockerfile, ExecFormsAreLists) {
  const auto p = parse("FROM a\nCMD [\"a b\", \"c\\\"d\"]\nENTRYPOINT a b\nCMD [ -f x ]\n");
  EXPECT_TRUE(p->file.instructions[1].is_exec_form);
  EXPECT_THAT(texts(p->file.instructions[1].words), ElementsAre("a b", "c\"d"));
  EXPECT_FALSE(p->file.instructions[2].is_exec_form);
}

TEST(Dockerfile, ArgumentsBeforeFromArePutIn) {
  const auto p = parse("ARG V=12.8\nARG B=nvidia/cuda:$V\nFROM ${B}-${K:-runtime} AS x\n");
  EXPECT_EQ(p->file.stages.at(0).image, "nvidia/cuda:12.8-runtime");
  EXPECT_EQ(p->file.stages[0].name, "x");
}

TEST(Dockerfile, TheImageIsTheLastStageAndWhatItStandsOn) {
  const auto p = parse(
      "FROM base AS common\nENV A=1\nFROM big AS build\nENV B=2\nFROM common\nENV C=3 D=4\n"
      "ENV E five\n");
  EXPECT_EQ(p->file.base()->image, "base");
  std::vector<std::string> names;
  for (const EnvVar& variable : p->file.env) names.push_back(variable.name);
  EXPECT_THAT(names, ElementsAre("A", "C", "D", "E"));
  EXPECT_EQ(value_of(p->file.env, "E"), "five");
  EXPECT_EQ(p->file.env[1].place, (Place{6, 5}));
}

TEST(Dockerfile, HeredocsBelongToTheirInstruction) {
  const auto p = parse("FROM a\nRUN <<EOF\npip install torch\nFROM b\nEOF\nCMD x\n");
  ASSERT_EQ(p->file.instructions.size(), 3u);
  EXPECT_TRUE(p->file.instructions[1].mentions("pip install torch"));
  EXPECT_EQ(p->file.stages.size(), 1u);
}

TEST(Dockerfile, AStageThatNamesItselfEnds) {
  const auto p = parse("FROM a AS a\nFROM a AS a\nFROM A\n");
  EXPECT_EQ(p->file.base()->image, "a");
}

}  // namespace
}  // namespace shanty::lint
