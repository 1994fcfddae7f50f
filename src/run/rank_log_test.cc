#include "run/rank_log.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

namespace shanty {
namespace {

using ::testing::ElementsAre;

class RankLogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/shanty-log-XXXXXX";
    directory_ = ::mkdtemp(pattern);
    log_ = directory_ + "/rank.log";
    index_ = directory_ + "/rank.idx";
  }
  void TearDown() override { EXPECT_TRUE(remove_tree(directory_).ok()); }

  RankLogWriter writer(int64_t unix_ns = 1) {
    auto opened = RankLogWriter::open(log_, index_, unix_ns);
    EXPECT_TRUE(opened.ok());
    return std::move(*opened);
  }

  void append(const std::string& path, const std::string& bytes) {
    auto file = AppendFile::open(path);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->append(bytes).ok());
  }

  static std::vector<std::string> texts(const std::vector<LogChunk>& chunks) {
    std::vector<std::string> out;
    for (const LogChunk& chunk : chunks) {
      out.push_back(std::to_string(chunk.unix_ns) +
                    (chunk.stream == LogStream::kStderr ? "e:" : "o:") + chunk.bytes);
    }
    return out;
  }

  std::string directory_, log_, index_;
};

TEST_F(RankLogTest, GivesBackPiecesWithTheirStreamAndTime) {
  RankLogReader reader(log_, index_);
  EXPECT_TRUE(reader.read(false).empty());
  RankLogWriter w = writer();
  ASSERT_TRUE(w.append(LogStream::kStdout, "out", 10).ok());
  ASSERT_TRUE(w.append(LogStream::kStderr, std::string("e\0r", 3), 20).ok());
  EXPECT_THAT(texts(reader.read(false)), ElementsAre("10o:out", std::string("20e:e\0r", 7)));
  EXPECT_TRUE(reader.read(false).empty());
  EXPECT_FALSE(reader.ended());
  ASSERT_TRUE(w.finish(30).ok());
  EXPECT_TRUE(reader.read(false).empty());
  EXPECT_TRUE(reader.ended());
}

TEST_F(RankLogTest, AReadIsBounded) {
  RankLogWriter w = writer();
  ASSERT_TRUE(w.append(LogStream::kStderr, std::string(1000, 'x'), 10).ok());
  RankLogReader reader(log_, index_);
  size_t total = 0;
  for (auto chunks = reader.read(false, 300); !chunks.empty(); chunks = reader.read(false, 300)) {
    ASSERT_EQ(chunks.size(), 1U);
    EXPECT_LE(chunks[0].bytes.size(), 300U);
    EXPECT_EQ(chunks[0].stream, LogStream::kStderr);
    total += chunks[0].bytes.size();
  }
  EXPECT_EQ(total, 1000U);
}

TEST_F(RankLogTest, BytesBeyondTheIndexComeOutWhenTheWriterIsGone) {
  RankLogWriter w = writer();
  ASSERT_TRUE(w.append(LogStream::kStderr, "known", 10).ok());
  append(log_, "rest");
  append(index_, "torn");
  RankLogReader reader(log_, index_);
  EXPECT_THAT(texts(reader.read(false)), ElementsAre("10e:known"));
  EXPECT_THAT(texts(reader.read(true)), ElementsAre("10o:rest"));
}

TEST_F(RankLogTest, TheNextWriterGoesOnBehindATornEnd) {
  {
    RankLogWriter w = writer();
    ASSERT_TRUE(w.append(LogStream::kStderr, "one", 10).ok());
  }
  append(log_, "lost");
  append(index_, "torn record");
  RankLogWriter w = writer(15);
  ASSERT_TRUE(w.append(LogStream::kStdout, "two", 20).ok());
  RankLogReader reader(log_, index_);
  EXPECT_THAT(texts(reader.read(false)), ElementsAre("10e:one", "15o:lost", "20o:two"));
  EXPECT_EQ(reader.skipped_records(), 0U);
}

TEST_F(RankLogTest, ADamagedRecordCostsItsTimeNotItsBytes) {
  RankLogWriter w = writer();
  ASSERT_TRUE(w.append(LogStream::kStderr, "one", 10).ok());
  ASSERT_TRUE(w.append(LogStream::kStderr, "two", 20).ok());
  std::string index = *read_file(index_, 1000);
  index[kLogIndexHeaderBytes + 3] ^= 1;
  ASSERT_TRUE(replace_file(index_, index).ok());
  RankLogReader reader(log_, index_);
  EXPECT_THAT(texts(reader.read(true)), ElementsAre("20e:onetwo"));
  EXPECT_EQ(reader.skipped_records(), 1U);
}

TEST_F(RankLogTest, RecordsThatPointAnywhereDoNoHarm) {
  append(log_, "content");
  char header[kLogIndexHeaderBytes];
  char record[kLogIndexRecordBytes];
  encode_log_index_header(header);
  append(index_, {header, sizeof(header)});
  for (const uint64_t end : {~uint64_t{0}, uint64_t{0}, uint64_t{3}}) {
    encode_log_index_record({5, end, LogStream::kStdout}, record);
    append(index_, {record, sizeof(record)});
  }
  RankLogReader reader(log_, index_);
  EXPECT_THAT(texts(reader.read(true)), ElementsAre("5o:content"));
}

TEST_F(RankLogTest, AFileThatIsNoIndexIsIgnored) {
  append(log_, "content");
  append(index_, std::string(100, 'x'));
  RankLogReader reader(log_, index_);
  EXPECT_THAT(texts(reader.read(false)), ElementsAre("0o:content"));
}

TEST_F(RankLogTest, TellsWhatTheRankItselfWroteWhenItLooks) {
  RankLogReader reader(log_, index_, LogStream::kStderr);
  RankLogWriter w = writer();
  append(log_, "one\n");
  ASSERT_TRUE(w.note_growth(LogStream::kStderr, 10).ok());
  ASSERT_TRUE(w.note_growth(LogStream::kStderr, 11).ok());
  append(log_, "two\n");
  EXPECT_THAT(texts(reader.read(false)), ElementsAre("10e:one\n"));
  EXPECT_THAT(texts(reader.read(true)), ElementsAre("10e:two\n"));
  ASSERT_TRUE(w.note_growth(LogStream::kStderr, 12).ok());
  ASSERT_TRUE(w.finish(13).ok());
  EXPECT_TRUE(reader.read(true).empty());
  EXPECT_TRUE(reader.ended());
}

TEST_F(RankLogTest, SkipsForwardToTheEnd) {
  RankLogWriter w = writer();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(
        w.append(LogStream::kStderr, std::string(9, static_cast<char>('a' + i % 26)) + "\n", i)
            .ok());
  }
  RankLogReader reader(log_, index_);
  EXPECT_EQ(reader.skip_to_last(20), 980U);
  const auto chunks = reader.read(false);
  ASSERT_EQ(chunks.size(), 2U);
  EXPECT_EQ(chunks[0].unix_ns, 98);
  EXPECT_EQ(reader.behind_bytes(), 0U);
}

TEST_F(RankLogTest, StartsWithTheLastLines) {
  RankLogWriter w = writer();
  ASSERT_TRUE(w.append(LogStream::kStdout, "1\n2\n3", 10).ok());
  ASSERT_TRUE(w.append(LogStream::kStderr, "\n4\n", 20).ok());
  RankLogReader two(log_, index_);
  two.skip_to_last_lines(2);
  EXPECT_THAT(texts(two.read(false)), ElementsAre("10o:3", "20e:\n4\n"));
  RankLogReader many(log_, index_);
  many.skip_to_last_lines(1000);
  EXPECT_THAT(texts(many.read(false)), ElementsAre("10o:1\n2\n3", "20e:\n4\n"));
}

TEST_F(RankLogTest, StopsWhereTheFileEndedWhenAsked) {
  RankLogWriter w = writer();
  ASSERT_TRUE(w.append(LogStream::kStdout, "old", 10).ok());
  RankLogReader reader(log_, index_);
  reader.stop_at_current_size();
  ASSERT_TRUE(w.append(LogStream::kStdout, "new", 20).ok());
  EXPECT_THAT(texts(reader.read(true)), ElementsAre("10o:old"));
  EXPECT_TRUE(reader.read(true).empty());
}

}  // namespace
}  // namespace shanty
