#include "cli/init_text.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/script_guess.h"
#include "job/parse.h"

namespace shanty {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kDdpScript = R"py(import argparse
# from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel as DDP
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int,
               help="per rank (samples)", default=64)
p.add_argument('--lr', default=3e-4, type=float)
max_iters = 5000
loader = DataLoader(ds, batch_size=args.batch_size, num_workers=4)
)py";

std::string init(const std::string& path, std::string_view script, const Cluster& cluster = {}) {
  return initial_job_file({.script_path = path, .script_text = script, .cluster = cluster});
}

TEST(ScriptGuess, FindsDefaultsAndSaysWhere) {
  const ScriptGuesses guesses = guess_from_script(kDdpScript);
  EXPECT_EQ(guesses.framework.value, Framework::kDdp);
  EXPECT_EQ(guesses.framework.from, "line 3: DistributedDataParallel");
  ASSERT_TRUE(guesses.batch_size && guesses.learning_rate && guesses.loader_workers);
  EXPECT_EQ(guesses.batch_size->value, "64");
  EXPECT_EQ(guesses.batch_size->from, "line 5: the default of --batch-size");
  EXPECT_EQ(guesses.learning_rate->value, "3e-4");
  EXPECT_EQ(guesses.loader_workers->value, "4");
  ASSERT_TRUE(guesses.steps);
  EXPECT_EQ(guesses.steps->value, "5000");
}

TEST(ScriptGuess, FindsFsdpAndAssignments) {
  const ScriptGuesses guesses =
      guess_from_script("from torch.distributed.fsdp import fully_shard\nbatch_size: int = 12\n");
  EXPECT_EQ(guesses.framework.value, Framework::kFsdp);
  ASSERT_TRUE(guesses.batch_size);
  EXPECT_EQ(guesses.batch_size->value, "12");
}

TEST(ScriptGuess, DoesNotTakeADefaultOfAnotherOption) {
  const ScriptGuesses guesses = guess_from_script(
      "p.add_argument('--batch-size', type=int)\np.add_argument('--x', default=9)\n");
  EXPECT_FALSE(guesses.batch_size);
}

TEST(ScriptGuess, ScriptThatSaysNothingGivesNoGuesses) {
  const ScriptGuesses guesses = guess_from_script("print('hello')\n");
  EXPECT_EQ(guesses.framework.value, Framework::kOther);
  EXPECT_FALSE(guesses.batch_size || guesses.steps || guesses.loader_workers);
}

TEST(InitialJobFile, ParsesCleanlyAndSaysWhereValuesComeFrom) {
  const std::string text = init("src/train.py", kDdpScript, Cluster{.cpus = 2});
  const ParsedJob parsed = parse_job(text, "job.yaml");
  EXPECT_TRUE(parsed.diagnostics.empty()) << format_diagnostics(parsed.diagnostics, text, {});
  EXPECT_EQ(parsed.job.name, "train");
  EXPECT_EQ(parsed.job.run.script, "src/train.py");
  EXPECT_EQ(parsed.job.batch.per_gpu, 64u);
  EXPECT_EQ(parsed.job.gpus_per_node, 2u);
  EXPECT_THAT(text, HasSubstr("# line 5: the default of --batch-size"));
  EXPECT_THAT(text, HasSubstr("# steps: 5000"));
}

TEST(InitialJobFile, HasFiveLinesThatCount) {
  const std::string text = init("train.py", kDdpScript, Cluster{.gpus = 8});
  size_t counted = 0;
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    if (text[at] != '#' && text[at] != '\n') ++counted;
  }
  EXPECT_EQ(counted, 5u);
  EXPECT_THAT(text, HasSubstr("gpus_per_node: 8"));
}

TEST(InitialJobFile, ImpossibleBatchSizesAreNotTaken) {
  for (const char* size : {"0", "99999999999999999999", "2000000"}) {
    const std::string text = init("t.py", std::string("batch_size = ") + size + "\n");
    EXPECT_EQ(parse_job(text, "job.yaml").job.batch.per_gpu, 32u) << size;
  }
}

TEST(InitialJobFile, OddPathsStayWhatTheyAre) {
  for (const char* path : {"a b.py", "it's.py", "null", "12", "{x}.py", "# x.py", "\xc3\xa4.py",
                           "- x", "a: b.py", "true", "~", "a, b.py", "&a.py", "-x.py", "1e5.py"}) {
    const std::string text = init(path, "");
    const ParsedJob parsed = parse_job(text, "job.yaml");
    EXPECT_TRUE(parsed.ok()) << format_diagnostics(parsed.diagnostics, text, {});
    EXPECT_EQ(parsed.job.run.script, path);
  }
}

}  // namespace
}  // namespace shanty
