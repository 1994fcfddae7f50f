#include "causes/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace shanty {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr std::string_view kSource = "kind: Pod\nspec: {ü: 1}\n";

std::string_view source(const std::string& /*file*/) { return kSource; }

Finding example() {
  Finding finding;
  finding.code = "SHM001";
  finding.file = "a b.yaml";
  finding.line = 2;
  finding.column = 7;
  finding.message = "no volume, at /dev/shm";
  finding.edits = {{.begin = kSource.find("1"), .end = kSource.find("1") + 1, .text = "2"}};
  return finding;
}

TEST(Report, TextShowsTheLineTheWhyAndTheFix) {
  const Finding finding = example();
  const std::string text = findings_text({&finding, 1}, source);
  EXPECT_THAT(text, HasSubstr("a b.yaml:2:7: warning: no volume, at /dev/shm [SHM001]\n"
                              "    spec: {ü: 1}\n          ^\n"));
  EXPECT_THAT(text, HasSubstr("    why:  Loader workers hand batches"));
  EXPECT_THAT(text, HasSubstr("    fix:  Mount an `emptyDir`"));
}

// The lines are looked up once for a file, so that a list of thousands of findings takes no minute.
TEST(Report, TextAsksForASourceOnceForAllThatStandsTogether) {
  std::vector<Finding> findings(300, example());
  for (size_t i = 200; i < findings.size(); ++i) findings[i].file = "b.yaml";
  size_t asked = 0;
  const std::string text = findings_text(findings, [&](const std::string& file) {
    ++asked;
    return file == "b.yaml" ? std::string_view("other\nline of b\n") : kSource;
  });
  EXPECT_EQ(asked, 2u);
  EXPECT_THAT(text, HasSubstr("a b.yaml:2:7: warning: no volume, at /dev/shm [SHM001]\n"
                              "    spec: {ü: 1}\n          ^\n"));
  EXPECT_THAT(text, HasSubstr("b.yaml:2:7: warning: no volume, at /dev/shm [SHM001]\n"
                              "    line of b\n"));
}

TEST(Report, TextStaysWithinANarrowTerminal) {
  const Finding finding = example();
  const std::string text = findings_text({&finding, 1}, source, {.color = false, .width = 50});
  for (size_t at = text.find("    why"); at < text.size();) {
    const size_t end = text.find('\n', at);
    EXPECT_LE(end - at, 50U) << text.substr(at, end - at);
    at = end + 1;
  }
}

TEST(Report, WhatADetectorSaysGoesBeforeTheCatalogue) {
  Finding finding = example();
  finding.why = "because";
  finding.fix = {"first", "second"};
  complete(finding);
  EXPECT_EQ(finding.why, "because");
  EXPECT_EQ(finding.fix.size(), 2U);
}

TEST(Report, SarifHasRulesPlacesAndFixesInCharacters) {
  const std::vector<Finding> findings = {example(), example()};
  const json sarif = json::parse(findings_sarif(findings, source));
  EXPECT_EQ(sarif["version"], "2.1.0");
  const json& run = sarif["runs"][0];
  ASSERT_EQ(run["tool"]["driver"]["rules"].size(), 1U);
  EXPECT_EQ(run["tool"]["driver"]["rules"][0]["id"], "SHM001");
  ASSERT_EQ(run["results"].size(), 2U);
  const json& place = run["results"][1]["locations"][0]["physicalLocation"];
  EXPECT_EQ(place["artifactLocation"]["uri"], "a%20b.yaml");
  EXPECT_EQ(place["region"]["startLine"], 2);
  const json& change = run["results"][1]["fixes"][0]["artifactChanges"][0]["replacements"][0];
  EXPECT_EQ(change["deletedRegion"]["charOffset"], 20);
  EXPECT_EQ(change["deletedRegion"]["charLength"], 1);
  EXPECT_EQ(change["insertedContent"]["text"], "2");
}

TEST(Report, GitHubsCommandsKeepToOneLine) {
  Finding finding = example();
  finding.fix = {"100%, surely"};
  finding.file = "a,b:c.yaml";
  EXPECT_EQ(findings_github({&finding, 1}),
            "::warning file=a%2Cb%3Ac.yaml,line=2,col=7,title=SHM001::"
            "no volume, at /dev/shm%0A100%25, surely\n");
}

TEST(Report, EditsThatOverlapAreNotMixed) {
  Finding a, b;
  a.edits = {{.begin = 0, .end = 4, .text = "sort"}};
  b.edits = {{.begin = 2, .end = 5, .text = "x"}, {.begin = 6, .end = 9, .text = "Job"}};
  EXPECT_EQ(apply_edits("kind: Pod\n", std::vector<Finding>{a, b}), "sort: Job\n");
  EXPECT_EQ(apply_edits("kind: Pod\n", std::vector<Finding>{a, a}), "sort: Pod\n");
}

TEST(Report, AnEditBeyondTheTextIsLeftOut) {
  Finding finding;
  finding.edits = {{.begin = 3, .end = 99, .text = "x"}};
  EXPECT_EQ(apply_edits("kind", {&finding, 1}), "kind");
}

}  // namespace
}  // namespace shanty
