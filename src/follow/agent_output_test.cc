#include "follow/agent_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty::follow {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using From = OutputLine::From;

TEST(AgentOutput, TellsTheAgentFromTheRanks) {
  EXPECT_EQ(read_output_line("shanty 04:31:51  generation 1: 2 ranks on 2 nodes").from,
            From::kAgent);
  EXPECT_EQ(read_output_line("shanty 04:31:51  generation 1: 2 ranks on 2 nodes").text,
            "generation 1: 2 ranks on 2 nodes");
  EXPECT_EQ(read_output_line("shanty 04:31:51  step 8/50 16% | 81 ms/step").from, From::kProgress);
  EXPECT_EQ(read_output_line("shanty 04:31:51  waiting: node 1 of 2 is missing").from,
            From::kProgress);
  for (const char* line : {"step 8/50", "shanty", "shanty at 04:31", "shanty 04:31:51 x", ""}) {
    EXPECT_EQ(read_output_line(line).from, From::kRank) << line;
  }
}

TEST(AgentOutput, KeepsWhatRayPrintsApart) {
  for (const char* line :
       {"2026-11-30 23:43:41,271\tSUCC scripts.py:1251 -- Ray runtime started.",
        "2026-11-30 23:43:06,173\tINFO scripts.py:1234 -- Local node IP: 10.1.1.2",
        "/bin/bash: line 1: ulimit: open files: cannot modify limit: no"}) {
    EXPECT_EQ(read_output_line(line).from, From::kRay) << line;
    EXPECT_EQ(read_output_line(line).text, "") << line;
  }
  const OutputLine warning =
      read_output_line("2026-11-30 23:43:24,692\tWARNING services.py:2248 -- /dev/shm is small");
  EXPECT_EQ(warning.from, From::kRay);
  EXPECT_EQ(warning.text, "/dev/shm is small");
  for (const char* line :
       {"2026-11-30 23:43:41,271 INFO train.py:12 -- loss 2",
        "2026-11-30 23:43:41,271\tINFO loss -- 2", "2026-11-30 23:43:41,271\tINFO",
        "2026-11-30 23:43:41,271\t", "2026-11-30\tINFO a.py:1 -- x",
        "2026-11-30 23:43:41,271\tNOTE a.py:1 -- x",
        "[rank 0] 2026-11-30 23:43:41,271\tINFO a.py:1 -- x",
        "/bin/bash: line 1: train: not found"}) {
    EXPECT_EQ(read_output_line(line).from, From::kRank) << line;
  }
}

TEST(AgentOutput, KnowsTheLineAboutAllRanks) {
  const OutputLine ranks = read_output_line(R"(shanty 04:31:51  ranks {"a":1})");
  EXPECT_EQ(ranks.from, From::kRanks);
  EXPECT_EQ(ranks.text, R"({"a":1})");
  EXPECT_EQ(read_output_line("shanty 04:31:51  ranks 1 and 2 are late").from, From::kAgent);
}

TEST(AgentOutput, KnowsWhoPrintedALine) {
  EXPECT_THAT(ranks_of_line("[rank 3] loss 2"), ElementsAre(3));
  EXPECT_THAT(ranks_of_line("[rank 0-2] loss 2"), ElementsAre(0, 1, 2));
  EXPECT_THAT(ranks_of_line("[4 ranks: 0-2,7] loss 2"), ElementsAre(0, 1, 2, 7));
  EXPECT_THAT(ranks_of_line("[rank 3] "), ElementsAre(3));
  for (const char* other : {"loss 2", "[rank 3]x", "[rank x] y", "[rank 2-1] y",
                            "[rank 0-99999999] y", "[x ranks: 1] y", "[rank 1;2] y", "[rank -3] y",
                            "", "[rank 99999999999999] y", "[1, 2] y"}) {
    EXPECT_THAT(ranks_of_line(other), IsEmpty()) << other;
  }
}

}  // namespace
}  // namespace shanty::follow
