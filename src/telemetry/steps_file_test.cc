#include "telemetry/steps_file.h"

#include <cstdlib>
#include <limits>

#include <gtest/gtest.h>

namespace shanty {
namespace {

class StepsFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/shanty-steps-XXXXXX";
    directory_ = ::mkdtemp(pattern);
    path_ = directory_ + "/rank.steps";
  }
  void TearDown() override { EXPECT_TRUE(remove_tree(directory_).ok()); }

  void write(uint64_t first, uint64_t count) {
    auto writer = StepsWriter::open(path_, {.rank = 3, .generation = 2, .start_unix_ns = 77});
    ASSERT_TRUE(writer.ok());
    std::vector<StepRecord> records;
    for (uint64_t step = first; step < first + count; ++step) records.push_back({.step = step});
    ASSERT_TRUE(writer->append(records).ok());
  }
  void append(const std::string& bytes) {
    auto file = AppendFile::open(path_);
    ASSERT_TRUE(file->append(bytes).ok());
  }
  std::vector<StepRecord> read(StepsReader& reader) {
    std::vector<StepRecord> out;
    while (reader.read(out)) {
    }
    return out;
  }

  std::string directory_, path_;
};

TEST_F(StepsFileTest, GivesBackHeaderAndRecordsAsTheyCome) {
  StepsReader reader(path_);
  EXPECT_TRUE(read(reader).empty());
  write(0, 3);
  EXPECT_EQ(read(reader).size(), 3U);
  ASSERT_TRUE(reader.header().has_value());
  EXPECT_EQ(reader.header()->rank, 3);
  EXPECT_EQ(reader.header()->generation, 2U);
  EXPECT_EQ(reader.header()->start_unix_ns, 77);
  write(3, 1);
  const auto more = read(reader);
  ASSERT_EQ(more.size(), 1U);
  EXPECT_EQ(more[0].step, 3U);
}

TEST_F(StepsFileTest, ATornRecordIsLeftOutAndTheNextWriterGoesOnBeforeIt) {
  write(0, 2);
  append("half a record");
  StepsReader reader(path_);
  EXPECT_EQ(read(reader).size(), 2U);
  EXPECT_EQ(reader.torn_bytes(), 13U);
  write(2, 1);
  StepsReader again(path_);
  EXPECT_EQ(read(again).size(), 3U);
  EXPECT_EQ(again.torn_bytes(), 0U);
  EXPECT_EQ(again.skipped_records(), 0U);
}

TEST_F(StepsFileTest, ADamagedRecordIsSkippedAndCounted) {
  write(0, 3);
  std::string bytes = *read_file(path_, 10000);
  bytes[kStepsHeaderBytes + kStepsRecordBytes + 20] ^= 4;
  ASSERT_TRUE(replace_file(path_, bytes).ok());
  StepsReader reader(path_);
  EXPECT_EQ(read(reader).size(), 2U);
  EXPECT_EQ(reader.skipped_records(), 1U);
}

TEST_F(StepsFileTest, TimesBeyondReasonAreBroughtIntoRange) {
  for (const int64_t odd :
       {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}) {
    char bytes[kStepsRecordBytes];
    encode_step_record({.end_unix_ns = odd}, bytes);
    const auto record = decode_step_record({bytes, sizeof(bytes)});
    ASSERT_TRUE(record.has_value());
    EXPECT_GE(record->end_unix_ns, 0);
    EXPECT_LE(record->end_unix_ns, int64_t{1} << 62);
  }
}

TEST_F(StepsFileTest, AnotherFileIsNotReadAsSteps) {
  append(std::string(1000, 'x'));
  StepsReader reader(path_);
  EXPECT_TRUE(read(reader).empty());
  EXPECT_TRUE(reader.bad());
}

TEST_F(StepsFileTest, AHeaderJustBeingWrittenIsWaitedFor) {
  const std::string header = encode_steps_header({.rank = 1, .generation = 1});
  append(header.substr(0, 30));
  StepsReader reader(path_);
  EXPECT_TRUE(read(reader).empty());
  EXPECT_FALSE(reader.bad());
  append(header.substr(30));
  read(reader);
  EXPECT_TRUE(reader.header().has_value());
}

}  // namespace
}  // namespace shanty
