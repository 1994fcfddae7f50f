#include "run/events.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/files.h"

namespace shanty {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;

Event event_at(int64_t unix_ns, const std::string& text) {
  return {.unix_ns = unix_ns, .kind = std::string(event_kind::kWarning), .text = text};
}

class EventsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/shanty-events-XXXXXX";
    directory_ = ::mkdtemp(pattern);
    path_ = directory_ + "/a.jsonl";
  }
  void TearDown() override { EXPECT_TRUE(remove_tree(directory_).ok()); }

  void append(const std::string& bytes) {
    auto file = AppendFile::open(path_);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->append(bytes).ok());
  }

  std::string directory_;
  std::string path_;
};

TEST(EventCode, SurvivesTheWayThereAndBack) {
  const Event event{.unix_ns = 1795975445123456789,
                    .source = "node-1",
                    .kind = "worker_failed",
                    .generation = 3,
                    .rank = 0,
                    .node_rank = 1,
                    .text = "a \"quoted\"\nline, umlaut \xc3\xbc",
                    .extra_json = R"({"code":3,"list":[1,2]})"};
  const auto line = encode_event(event);
  ASSERT_TRUE(line.ok());
  EXPECT_EQ(line->find('\n'), std::string::npos);
  EXPECT_EQ(decode_event(*line), event);
}

TEST(EventCode, AnyChangedByteIsNoticed) {
  const std::string line = *encode_event(event_at(7, "hello"));
  for (size_t i = 0; i < line.size(); ++i) {
    std::string damaged = line;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_FALSE(decode_event(damaged).has_value()) << i;
  }
}

TEST(EventCode, CutsLongTextAndRefusesWhatIsNoObject) {
  const auto line = encode_event(event_at(7, std::string(10 * kMaxEventTextBytes, 'x')));
  ASSERT_TRUE(line.ok());
  EXPECT_THAT(decode_event(*line)->text, HasSubstr("x [cut]"));
  Event bad = event_at(7, "");
  for (const std::string extra : {"[1]", "{", "nonsense"}) {
    bad.extra_json = extra;
    EXPECT_FALSE(encode_event(bad).ok()) << extra;
  }
  bad.extra_json = "{\"a\":\"" + std::string(kMaxEventLineBytes, 'y') + "\"}";
  EXPECT_FALSE(encode_event(bad).ok());
}

TEST(EventCode, DeepNestingIsRefusedNotFollowed) {
  Event bad = event_at(7, "");
  bad.extra_json = "{\"a\":" + std::string(20000, '[') + std::string(20000, ']') + "}";
  EXPECT_FALSE(encode_event(bad).ok());
}

TEST_F(EventsTest, ReaderTakesWholeLinesAsTheyCome) {
  EventReader reader(path_);
  EXPECT_TRUE(reader.poll().empty());
  const std::string line = *encode_event(event_at(1, "one")) + "\n";
  append(line + line.substr(0, 10));
  EXPECT_EQ(reader.poll().size(), 1U);
  EXPECT_TRUE(reader.has_unfinished_line());
  append(line.substr(10));
  EXPECT_EQ(reader.poll().size(), 1U);
  EXPECT_FALSE(reader.has_unfinished_line());
  EXPECT_EQ(reader.skipped_lines(), 0U);
}

TEST_F(EventsTest, ATornLineIsClosedByTheNextWriterAndSkipped) {
  const std::string line = *encode_event(event_at(1, "one")) + "\n";
  append(line + line.substr(0, 20));
  auto writer = EventWriter::open(path_, "coordinator");
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->append(event_at(2, "two")).ok());
  EventReader reader(path_);
  EXPECT_THAT(reader.poll(), ElementsAre(Field(&Event::text, "one"), Field(&Event::text, "two")));
  EXPECT_EQ(reader.skipped_lines(), 1U);
}

TEST_F(EventsTest, AnEndlessLineTakesNoMemoryAndIsSkippedOnce) {
  append(std::string(5 * kMaxEventLineBytes, 'x') + "\n" + *encode_event(event_at(1, "one")) +
         "\n");
  EventReader reader(path_);
  EXPECT_EQ(reader.poll().size(), 1U);
  EXPECT_EQ(reader.skipped_lines(), 1U);
}

TEST_F(EventsTest, FollowerMergesFilesByTimeAndFindsNewOnes) {
  const auto run = RunDir::create(directory_ + "/run", {.run_id = "r"});
  ASSERT_TRUE(run.ok());
  auto coordinator = EventWriter::open(run->coordinator_events(), "coordinator");
  ASSERT_TRUE(coordinator->append(event_at(10, "a")).ok());
  ASSERT_TRUE(coordinator->append(event_at(30, "c")).ok());
  auto node = EventWriter::open(run->node_events(0), "node-0");
  ASSERT_TRUE(node->append(event_at(20, "b")).ok());
  EventFollower follower(*run);
  EXPECT_THAT(follower.poll(), ElementsAre(Field(&Event::text, "a"), Field(&Event::text, "b"),
                                           Field(&Event::text, "c")));
  auto late = EventWriter::open(run->command_events(0), "command-0");
  ASSERT_TRUE(late->append(event_at(5, "late")).ok());
  EXPECT_THAT(follower.poll(), ElementsAre(Field(&Event::source, "command-0")));
}

}  // namespace
}  // namespace shanty
