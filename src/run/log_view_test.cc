#include "run/log_view.h"

#include <cstdlib>
#include <map>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/files.h"

namespace shanty {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;

class FakeClock final : public Clock {
 public:
  TimePoint now() const override { return {ns}; }
  int64_t unix_time_ns() const override { return ns; }
  int64_t ns = 1000 * kMs;
};

class LogViewTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/shanty-view-XXXXXX";
    directory_ = ::mkdtemp(pattern);
    start(4);
  }
  void TearDown() override { EXPECT_TRUE(remove_tree(directory_).ok()); }

  void start(int world_size) {
    const std::string path = directory_ + "/" + std::to_string(world_size);
    run_ = std::make_unique<RunDir>(*RunDir::create(path, {.run_id = "r", .slots = world_size}));
    writers_.clear();
    text_.clear();
  }

  RankLogWriter& writer(int rank, uint64_t generation = 1) {
    auto& slot = writers_[{generation, rank}];
    if (slot == nullptr) {
      EXPECT_TRUE(run_->make_generation(generation).ok());
      slot = std::make_unique<RankLogWriter>(
          RankLogWriter::open(run_->log(generation, rank), run_->log_index(generation, rank), 0)
              .value());
    }
    return *slot;
  }

  void say(int rank, const std::string& bytes, int64_t at_ms, uint64_t generation = 1,
           LogStream stream = LogStream::kStdout) {
    ASSERT_TRUE(writer(rank, generation).append(stream, bytes, at_ms * kMs).ok());
  }

  LogView view(LogViewOptions options) {
    return LogView(*run_, std::move(options), clock_,
                   [this](LogStream stream, std::string_view bytes) {
                     text_ += bytes;
                     (stream == LogStream::kStderr ? err_ : out_) += bytes;
                     ++sink_calls_;
                   });
  }

  // What `logs` without -f prints.
  std::string all(LogViewOptions options = {}) {
    text_.clear();
    LogView v = view(std::move(options));
    v.finish();
    return text_;
  }

  std::string poll(LogView& v) {
    text_.clear();
    while (v.poll()) {
    }
    return text_;
  }

  FakeClock clock_;
  std::string directory_;
  std::unique_ptr<RunDir> run_;
  std::map<std::pair<uint64_t, int>, std::unique_ptr<RankLogWriter>> writers_;
  std::string text_, out_, err_;
  int sink_calls_ = 0;
};

LogViewOptions following() {
  LogViewOptions options;
  options.merge.follow = true;
  return options;
}

TEST_F(LogViewTest, MergesRanksByTimeAndSaysWhoSpoke) {
  say(0, "a\n", 1);
  say(1, "b\n", 2);
  say(0, "c\nd\n", 3);
  EXPECT_EQ(all(), "[rank 0] a\n[rank 1] b\n[rank 0] c\n[rank 0] d\n");
}

TEST_F(LogViewTest, EqualLinesOfManyRanksBecomeOne) {
  for (int rank = 0; rank < 4; ++rank) say(rank, "loading\n", 10 + rank);
  for (int rank : {0, 1, 3}) say(rank, "epoch 1\n", 20 + rank);
  EXPECT_EQ(all(), "[rank 0-3] loading\n[3 ranks: 0-1,3] epoch 1\n");
}

TEST_F(LogViewTest, EqualLinesFarApartAreSeparate) {
  say(0, "loading\n", 10);
  say(1, "loading\n", 500);
  EXPECT_EQ(all(), "[rank 0] loading\n[rank 1] loading\n");
}

TEST_F(LogViewTest, FoldingKeepsEachRanksOrder) {
  say(0, "x\ny\n", 10);
  say(1, "y\nx\n", 11);
  EXPECT_EQ(all(), "[rank 0] x\n[rank 0-1] y\n[rank 1] x\n");
}

TEST_F(LogViewTest, ARankThatRepeatsALineIsNotFoldedWithItself) {
  say(0, "x\nx\n", 10);
  say(1, "x\nx\n", 11);
  EXPECT_EQ(all(), "[rank 0-1] x\n[rank 0-1] x\n");
}

TEST_F(LogViewTest, StreamsGoTheirOwnWayAndAreNotFoldedTogether) {
  say(0, "x\n", 10, 1, LogStream::kStdout);
  say(1, "x\n", 11, 1, LogStream::kStderr);
  all();
  EXPECT_EQ(out_, "[rank 0] x\n");
  EXPECT_EQ(err_, "[rank 1] x\n");
}

TEST_F(LogViewTest, FollowingHoldsALineForOthersToJoin) {
  say(0, "x\n", 1000);
  writer(1);
  LogView v = view(following());
  EXPECT_EQ(poll(v), "");
  EXPECT_TRUE(v.holds_lines());
  clock_.ns += 150 * kMs;
  say(1, "x\n", 1150);
  EXPECT_EQ(poll(v), "[rank 0-1] x\n");
  say(0, "y\n", 1200);
  EXPECT_EQ(poll(v), "");
  clock_.ns += 200 * kMs;
  EXPECT_EQ(poll(v), "[rank 0] y\n");
}

TEST_F(LogViewTest, ALineThatAllRanksSaidNeedNotWait) {
  for (int rank = 0; rank < 4; ++rank) say(rank, "x\n", 1000);
  LogView v = view(following());
  EXPECT_EQ(poll(v), "[rank 0-3] x\n");
}

TEST_F(LogViewTest, FindsRanksAndGenerationsThatAppearLater) {
  LogView v = view(following());
  EXPECT_EQ(poll(v), "");
  say(2, "first\n", 1000);
  EXPECT_EQ(poll(v), "[rank 2] first\n");
  say(0, "again\n", 2000, 2);
  poll(v);
  clock_.ns += 300 * kMs;
  poll(v);
  EXPECT_THAT(out_, HasSubstr("[rank 0] again\n"));
}

TEST_F(LogViewTest, GenerationsFollowEachOtherWhateverTheirClocksSay) {
  say(0, "old\n", 50, 1);
  say(0, "new\n", 10, 2);
  EXPECT_EQ(all(), "[rank 0] old\n[rank 0] new\n");
}

TEST_F(LogViewTest, AnUnfinishedLineIsShownWhenTheRankEnds) {
  LogView v = view(following());
  say(0, "no newline", 1000);
  EXPECT_EQ(poll(v), "");
  ASSERT_TRUE(writer(0).finish(1001 * kMs).ok());
  EXPECT_EQ(poll(v), "[rank 0] no newline");
  v.finish();
  EXPECT_EQ(text_, "[rank 0] no newline\n");
}

TEST_F(LogViewTest, AJobOfOneRankPassesBytesUnchanged) {
  start(1);
  const std::string bytes("\x00\xff\r10%\x1b[2J\nend without newline", 28);
  say(0, bytes, 10);
  EXPECT_EQ(all(), bytes);
  LogViewOptions prefixed;
  prefixed.prefix = LogPrefix::kAlways;
  EXPECT_EQ(all(prefixed).substr(0, 9), "[rank 0] ");
}

TEST_F(LogViewTest, NothingComesBetweenThePiecesOfAGiantLine) {
  const std::string giant(5 * LineSplitter::kMaxLineBytes, 'g');
  say(0, giant, 10);
  say(1, "between\n", 11);
  say(0, "!\n", 12);
  EXPECT_EQ(all(), "[rank 0] " + giant + "!\n[rank 1] between\n");
}

TEST_F(LogViewTest, AGiantLineThatNeverEndsHoldsOthersUpForAMomentOnly) {
  LogView v = view(following());
  say(0, std::string(2 * LineSplitter::kMaxLineBytes, 'g'), 1000);
  say(1, "waits\n", 1001);
  EXPECT_EQ(poll(v).find("waits"), std::string::npos);
  clock_.ns += 3000 * kMs;
  poll(v);
  clock_.ns += 300 * kMs;
  poll(v);
  EXPECT_THAT(out_, HasSubstr("\n[rank 1] waits\n"));
}

TEST_F(LogViewTest, ATerminalGetsOnlyHarmlessWholeLines) {
  LogViewOptions options;
  options.terminal = true;
  say(0, "a\x1b[31mred\x1b[2J\a\tb\r\n", 10);
  say(1, "10%\r50%\r99%", 20);
  EXPECT_EQ(all(options), "[rank 0] a\x1b[31mred\\x1b[2J\\x07\tb\x1b[0m\n[rank 1] 99%\n");
}

TEST_F(LogViewTest, AViewerFarBehindSkipsOnATerminalAndSaysSo) {
  LogViewOptions options = following();
  options.terminal = true;
  LogView v = view(std::move(options));
  const std::string block = std::string(999, 'x') + "\n";
  std::string mega;
  for (int i = 0; i < 1000; ++i) mega += block;
  for (int i = 0; i < 70; ++i) say(0, mega, 1000 + i);
  say(0, "last\n", 2000);
  poll(v);
  EXPECT_THAT(err_, HasSubstr(" skipped, see " + run_->log(1, 0)));
  EXPECT_LT(out_.size(), 1000U * 1000);
  v.finish();
  EXPECT_THAT(out_, HasSubstr("[rank 0] last\n"));
}

TEST_F(LogViewTest, APipeGetsEverythingHoweverFarBehind) {
  const std::string mega(1000 * 1000, 'x');
  for (int i = 0; i < 70; ++i) say(0, mega + "\n", 1000 + i);
  all();
  EXPECT_EQ(out_.size(), 70U * (1000 * 1000 + 1 + 9));
  EXPECT_LT(sink_calls_, 3000);
}

TEST_F(LogViewTest, FiltersByRankGenerationStreamAndContent) {
  say(0, "a\nb\n", 10, 1);
  say(1, "a\n", 11, 1, LogStream::kStderr);
  say(1, "c\n", 20, 2);
  LogViewOptions ranks;
  ranks.merge.ranks = {1};
  EXPECT_EQ(all(ranks), "[rank 1] a\n[rank 1] c\n");
  LogViewOptions generation;
  generation.merge.generation = 2;
  EXPECT_EQ(all(generation), "[rank 1] c\n");
  LogViewOptions stream;
  stream.only_stream = LogStream::kStderr;
  EXPECT_EQ(all(stream), "[rank 1] a\n");
  LogViewOptions content;
  content.keep = [](std::string_view line) { return line == "b"; };
  EXPECT_EQ(all(content), "[rank 0] b\n");
}

TEST_F(LogViewTest, TailStartsWithTheLastLinesAndGoesOn) {
  for (int i = 0; i < 50; ++i) say(i % 2, "line " + std::to_string(i) + "\n", 100 + 300 * i);
  LogViewOptions options = following();
  options.tail_lines = 3;
  LogView v = view(std::move(options));
  poll(v);
  clock_.ns += 300 * kMs;
  poll(v);
  EXPECT_EQ(out_, "[rank 1] line 47\n[rank 0] line 48\n[rank 1] line 49\n");
}

TEST(FormatRanks, WritesRanges) {
  EXPECT_EQ(format_ranks({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
  EXPECT_EQ(format_ranks({}), "");
}

TEST(EscapeForTerminal, EscapesWhatIsNotText) {
  EXPECT_EQ(escape_for_terminal("\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80"),
            "\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(escape_for_terminal("\xff\xc0\x80\xc2\x9b"), "\\xff\\xc0\\x80\\xc2\\x9b");
  EXPECT_EQ(escape_for_terminal("\xe2\x80\xae"), "\\xe2\\x80\\xae");
  EXPECT_EQ(escape_for_terminal("\xe2\x82"), "\\xe2\\x82");
  EXPECT_EQ(escape_for_terminal("\x1b]0;title\a"), "\\x1b]0;title\\x07");
}

}  // namespace
}  // namespace shanty
