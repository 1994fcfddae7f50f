#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "job/parse.h"
#include "text/utf8.h"

namespace shanty {
namespace {

const std::string kSeeds[] = {
    "job: a\nrun: {script: train.py, args: [--x, 1], env: {A: b}}\nnodes: {min: 2, max: 2}\n"
    "gpus_per_node: 8\nbatch: {per_gpu: 32, base_lr: 0.1, base_batch: 256, warmup: 5%}\n"
    "loader: {workers: auto, shm: 16Gi}\ndata:\n- {claim: c, mount: /m}\n",
    "run:\n  module: a.b\nnetwork: {bandwidth: 100GB/s, rdma: true}\n"
    "checkpoint:\n  every: 1h30m\n  cost: 60s\nfailures: {per_day: 1}\nmodel: {params: 2e9}\n",
};

const std::string kPieces[] = {
    "{",
    "}",
    "[",
    "]",
    ": ",
    "- ",
    "&a ",
    "*a",
    "<<: ",
    "---\n",
    "...\n",
    "\t",
    "\n  ",
    "\"",
    "'",
    "|\n",
    ">-\n",
    "? ",
    "!!str ",
    "!x ",
    "# ",
    "%YAML 1.1\n",
    "1e400",
    "-1",
    ".nan",
    "9999999999999999999999",
    "5%",
    "auto",
    "~",
    "\xff",
    "\xed\xa0\x80",
    "\xc3\xa4",
    "\\u0000",
    "Gi",
    "GB/s",
    "run: ",
    "data: ",
    "nodes: ",
    std::string(1, '\0'),
    std::string(200, '['),
    std::string(3000, 'a'),
};

std::string mutated(std::string text, Rng& rng) {
  for (uint64_t edits = 1 + rng.below(8); edits > 0 && !text.empty(); --edits) {
    const size_t at = rng.below(text.size());
    switch (rng.below(4)) {
      case 0:
        text[at] = static_cast<char>(rng.below(256));
        break;
      case 1:
        text.erase(at, 1 + rng.below(20));
        break;
      case 2:
        text.insert(at, kPieces[rng.below(std::size(kPieces))]);
        break;
      default:
        text.insert(at, text.substr(rng.below(text.size()), rng.below(60)));
        break;
    }
  }
  return text;
}

void expect_sane(const std::string& text, uint64_t seed) {
  const ParsedJob parsed = parse_job(text, "job.yaml");
  ASSERT_LE(parsed.diagnostics.size(), kMaxJobDiagnostics + 1) << "seed " << seed;
  const std::string shown = format_diagnostics(parsed.diagnostics, text, {});
  ASSERT_FALSE(find_invalid_utf8(shown).has_value()) << "seed " << seed;
  ASSERT_EQ(shown.find('\x1b'), shown.npos) << "seed " << seed;
  if (!parsed.ok()) return;
  const ParsedJob again = parse_job(serialize_job(parsed.job), "again.yaml");
  ASSERT_TRUE(again.ok()) << "seed " << seed << "\n" << text;
  ASSERT_EQ(again.job, parsed.job) << "seed " << seed << "\n" << text;
}

TEST(HostileJobFile, MutationsEndInAnErrorOrAJobThatReadsBackEqual) {
  constexpr uint64_t kMutations = 5000;
  for (uint64_t seed = 0; seed < kMutations; ++seed) {
    Rng rng(seed);
    expect_sane(mutated(kSeeds[seed % std::size(kSeeds)], rng), seed);
    if (HasFatalFailure()) return;
  }
}

TEST(HostileJobFile, BombsEndInOneError) {
  std::string laughs = "a: &a [x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c < 'k'; ++c) {
    const std::string before = std::string("*") + static_cast<char>(c - 1);
    laughs += std::string(1, c) + ": &" + c + " [" + before + "," + before + "," + before + "]\n";
  }
  const std::string bombs[] = {
      laughs,
      "run: " + std::string(100'000, '['),
      "run: " + std::string(100'000, '{'),
      "job: " + std::string(900'000, 'x'),
      "job: \"" + std::string(900'000, '\\'),
      std::string(1 << 20, '-'),
      std::string(1 << 20, ' '),
      std::string(1 << 20, '\t'),
      std::string(1 << 20, '\n') + "\xff",
      std::string(1 << 20, '?'),
      std::string(5 << 20, 'a'),
      std::string(1000, '\0'),
  };
  for (const std::string& bomb : bombs) {
    const ParsedJob parsed = parse_job(bomb, "job.yaml");
    EXPECT_FALSE(parsed.ok()) << bomb.substr(0, 20);
    EXPECT_LT(format_diagnostics(parsed.diagnostics, bomb, {}).size(), 4000u) << bomb.substr(0, 20);
  }
}

}  // namespace
}  // namespace shanty
