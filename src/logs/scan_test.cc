#include "logs/part.h"
#include "logs/scan.h"

#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include "logs/block_reader.h"
#include "logs/event_table.h"
#include "logs/pattern.h"
#include "logs/walk.h"

namespace shanty {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr int64_t kAround = 1'764'417'600'000'000'000;  // 2025-11-29T12:00:00Z

LogBook scan_text(std::string text, const std::string& name = "job.log") {
  LogScanner scanner;
  const auto source = memory_source(std::move(text));
  scanner.scan(*source, {.name = name, .around_unix_ns = kAround, .time_at = nullptr});
  return scanner.finish();
}

const Record* find(const LogBook& book, std::string_view event) {
  for (const Record& record : book.records) {
    if (record.event == event) return &record;
  }
  return nullptr;
}

TEST(Scan, TellsLineRankAndCaptures) {
  const LogBook book = scan_text(
      "hello\n\n[rank3]:[E1129 10:04:05.123456789 ProcessGroupNCCL.cpp:616] [PG ID 0 PG GUID "
      "0(default_pg) Rank 3] [Rank 3] Watchdog caught collective operation timeout: "
      "WorkNCCL(SeqNum=19, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for "
      "1800030 milliseconds before timing out.\n");
  const Record* record = find(book, "timeout");
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(record->line, 3u);
  EXPECT_EQ(record->rank, 3);
  EXPECT_EQ(record->number("seq"), 19);
  EXPECT_EQ(record->get("op"), "ALLREDUCE");
  EXPECT_EQ(record->number("ran"), 1800030);
}

TEST(Scan, ReadsTimeoutsOfAllVersions) {
  for (const char* work :
       {"WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800030 milliseconds",
        "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800030 milliseconds",
        "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=5, NumelOut=5, Timeout(ms)=1800000) ran for "
        "1800030 milliseconds"}) {
    const LogBook book = scan_text(
        "[E ProcessGroupNCCL.cpp:455] [Rank 2] Watchdog caught collective operation timeout: " +
        std::string(work) + " before timing out.\n");
    const Record* record = find(book, "timeout");
    ASSERT_NE(record, nullptr) << work;
    EXPECT_EQ(record->rank, 2) << work;
    EXPECT_EQ(record->get("op"), "ALLREDUCE") << work;
    EXPECT_EQ(record->number("timeout"), 1800000) << work;
  }
}

TEST(Scan, KnowsRanksOfProcessesFromInitLines) {
  const LogBook book = scan_text(
      "h-1:77:80 [0] NCCL INFO comm 0x55 rank 9 nranks 16 cudaDev 0 busId 1000 - Init COMPLETE\n"
      "h-1:77:81 [0] misc/socket.cc:5 NCCL WARN socketProgress: Connection closed by remote peer "
      "h-2<4000>\n");
  const Record* record = find(book, "nccl_peer_closed");
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(record->rank, 9);
  EXPECT_EQ(record->get("peer"), "h-2<4000>");
}

TEST(Scan, KnowsRanksOfOneAgentsWorkerLogsFromWhatItPrinted) {
  const auto rank_of_raise = [](std::initializer_list<std::string> directories) {
    LogScanner scanner;
    const auto scan = [&](std::string text, const std::string& name) {
      const auto source = memory_source(std::move(text));
      scanner.scan(*source, {.name = name, .around_unix_ns = kAround, .time_at = nullptr});
    };
    for (const std::string& directory : directories) {
      scan("ValueError: first\n", directory + "/attempt_0/1/stderr.log");
    }
    scan("[default1]:ValueError: first\n  rank      : 5 (local_rank: 1)\n", "job.log");
    const LogBook book = scanner.finish();
    const Record* record = find(book, "exception");
    return record->file == 0 ? record->rank : -2;
  };
  EXPECT_EQ(rank_of_raise({"logs/none_a"}), 5);
  EXPECT_EQ(rank_of_raise({"logs/none_a", "logs/none_b"}), -1);  // nothing says whose they are
}

TEST(Scan, TakesNumbersForRanksOnlyAmongOthers) {
  const auto rank_of = [](std::initializer_list<const char*> names) {
    LogScanner scanner;
    for (const char* name : names) {
      const auto source = memory_source("OSError: [Errno 24] Too many open files\n");
      scanner.scan(*source, {.name = name, .around_unix_ns = kAround, .time_at = nullptr});
    }
    return find(scanner.finish(), "fd_limit")->rank;
  };
  EXPECT_EQ(rank_of({"out/17.log"}), -1);
  EXPECT_EQ(rank_of({"out/17.log", "out/104.log"}), -1);
  EXPECT_EQ(rank_of({"a/8.log", "a/9.log", "b/10.log"}), 8);
}

// An expression that fits the empty text at the start of any line finds nothing further on.
TEST(Scan, NoRowOfTheTableFitsNothingAtTheStartOfALine) {
  for (const EventRow& row : event_rows()) {
    const bool marks_by_an_empty_group = row.pattern.find(">)") != row.pattern.npos;
    if (row.pattern.empty() || marks_by_an_empty_group) continue;
    Captures captures;
    size_t end = 1;
    const bool fits = Pattern(row.pattern).match_start("~", captures, end);
    EXPECT_FALSE(fits && end == 0) << row.id << " " << row.pattern;
  }
}

TEST(Scan, GivesAHostOneName) {
  const LogBook book = scan_text(
      "train-worker-0:700:1700 [0] NCCL INFO Using network Socket\n"
      "OSError: [Errno 24] Too many open files\n",
      "logs/node-0/rank0.log");
  EXPECT_EQ(find(book, "fd_limit")->node, "train-worker-0");
  EXPECT_EQ(book.files[0].node, "train-worker-0");
  const LogBook other =
      scan_text("OSError: [Errno 24] Too many open files\n", "logs/node-0/rank0.log");
  EXPECT_EQ(find(other, "fd_limit")->node, "node-0");
}

TEST(Scan, TakesPlacesFromTheLineItself) {
  const LogBook book = scan_text(
      "srun: error: node107: task 0: Out Of Memory\n"
      "train-worker-1   0/1     ImagePullBackOff   0          3m\n");
  EXPECT_EQ(find(book, "slurm_oom")->node, "node107");
  EXPECT_EQ(find(book, "image_pull")->pod, "train-worker-1");
}

TEST(Scan, SplitsGenerationsAtRestarts) {
  const LogBook book = scan_text(
      "ValueError: first\nINFO:torch.distributed.elastic.agent.server.api:[default] Worker group "
      "FAILED. 3/3 attempts left; will restart worker group\nValueError: second\n");
  std::vector<int> generations;
  for (const Record& record : book.records) {
    if (record.event == "exception") generations.push_back(record.generation);
  }
  EXPECT_THAT(generations, testing::ElementsAre(0, 1));
}

TEST(Scan, ReadsTheVisibleStateOfProgressBarsAndCrLf) {
  const LogBook book = scan_text("10%\r20%\rMemoryError: \r\nMemoryError: x\r\n");
  const Record* record = find(book, "host_memory");
  ASSERT_NE(record, nullptr);
  EXPECT_THAT(record->text, HasSubstr("MemoryError"));
}

TEST(Scan, ReadsEachPartOfALineThatWasRedrawn) {
  const LogBook book = scan_text(
      "[default3]:Epoch 1: 45%|##  | 45/100 loss: 2.1\rMemoryError: of a part\rEpoch 1: 46%\n");
  const Record* record = find(book, "host_memory");
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(record->text, "MemoryError: of a part");
  EXPECT_EQ(record->local_rank, 3);
  EXPECT_EQ(record->line, 1u);
}

TEST(Scan, KeepsTheEndOfATracebackOnce) {
  const LogBook book = scan_text(
      "one\n[rank2]:   File \"/job/a.py\", line 3, in go\r\n[rank2]:     run()\r\n"
      "[rank2]: ValueError: odd\r\nqueue.Empty\r\n");
  size_t raised = 0;
  for (const Record& record : book.records) raised += record.event == "exception" ? 1 : 0;
  EXPECT_EQ(raised, 1u);
  const Record* record = find(book, "exception");
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(record->line, 4u);
  EXPECT_EQ(record->rank, 2);
  EXPECT_EQ(record->get("type"), "ValueError");
  EXPECT_EQ(record->get("at"), "a.py:3 in go");
}

TEST(Scan, KeepsMemoryFlatAndCountsWhatItDrops) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "OSError: [Errno 24] Too many open files\n";
  const LogBook book = scan_text(std::move(text));
  size_t kept = 0;
  for (const Record& record : book.records) kept += record.event == "fd_limit" ? 1 : 0;
  EXPECT_EQ(kept, kKeepFirst + kKeepLast);
  EXPECT_EQ(book.records.back().line, 5000u);
  EXPECT_EQ(book.not_kept.at("fd_limit"), 5000 - kKeepFirst - kKeepLast);
}

TEST(Scan, CutsGiantLinesAndSaysSo) {
  std::string text(3 * BlockReader::kBlockBytes, 'x');
  text += "\nMemoryError: after\n";
  const LogBook book = scan_text(std::move(text));
  ASSERT_NE(find(book, "host_memory"), nullptr);
  EXPECT_EQ(find(book, "host_memory")->line, 2u);
  EXPECT_THAT(book.notes, Contains(HasSubstr("were cut")));
}

TEST(Scan, ReadsUtf16) {
  std::string text = "\xff\xfe";
  for (const char c : std::string("a\nMemoryError: x\n")) {
    text += c;
    text += '\0';
  }
  const LogBook book = scan_text(std::move(text));
  ASSERT_NE(find(book, "host_memory"), nullptr);
  EXPECT_EQ(find(book, "host_memory")->line, 2u);
}

std::string gzip(const std::string& text) {
  std::string out(compressBound(text.size()) + 64, '\0');
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

std::string tar_of(const std::string& name, const std::string& content) {
  std::string block(512, '\0');
  name.copy(block.data(), 100);
  const std::string size = fmt::format("{:011o}", content.size());
  size.copy(block.data() + 124, 11);
  block[156] = '0';
  std::string("ustar").copy(block.data() + 257, 5);
  std::fill(block.begin() + 148, block.begin() + 156, ' ');
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  fmt::format("{:06o}", sum).copy(block.data() + 148, 6);
  block[154] = '\0';
  std::string padded = content;
  padded.resize((content.size() + 511) / 512 * 512, '\0');
  return block + padded + std::string(1024, '\0');
}

std::string little(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
  return out;
}

struct Zipped {
  std::string name;
  std::string content;
  uint16_t method = 8;
  bool encrypted = false;
  bool sizes_follow = false;
};

// Local headers and data as `zip` and Python write them; of the directory only its mark.
std::string zip_of(const std::vector<Zipped>& files) {
  std::string out;
  for (const Zipped& file : files) {
    std::string data = file.content;
    if (file.method == 8) {
      data = gzip(file.content);
      data = data.substr(10, data.size() - 18);
    }
    if (file.method == 93) data = zstd(file.content);
    const uint64_t told = file.sizes_follow ? 0 : data.size();
    out += "PK\x03\x04" + little(20, 2) +
           little((file.encrypted ? 1u : 0u) | (file.sizes_follow ? 8u : 0u), 2) +
           little(file.method, 2) + little(0, 8) + little(told, 4) + little(told, 4) +
           little(file.name.size(), 2) + little(0, 2) + file.name + data;
    if (file.sizes_follow) {
      out += "PK\x07\x08" + little(0, 4) + little(data.size(), 4) + little(file.content.size(), 4);
    }
  }
  return out + "PK\x01\x02";
}

struct Walked {
  std::vector<std::pair<std::string, std::string>> files;
  std::vector<std::string> notes;
};

Walked walk_file(const std::string& name, const std::string& content) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << content;
  Walked out;
  WalkOptions options;
  options.file = [&](FoundFile& file) {
    const auto text = read_all(file.bytes, 1u << 30);
    if (text) {
      out.files.emplace_back(file.name.substr(file.name.rfind('/') + 1), *text);
    } else {
      out.notes.push_back(text.error().message);
    }
  };
  options.note = [&](std::string note) { out.notes.push_back(std::move(note)); };
  EXPECT_TRUE(walk(path, options).ok());
  return out;
}

TEST(Walk, OpensCompressedFilesAndArchives) {
  EXPECT_EQ(walk_file("a.log.gz", gzip("hello\n")).files[0].second, "hello\n");
  EXPECT_EQ(walk_file("a.log.zst", zstd("hello\n")).files[0].second, "hello\n");
  EXPECT_EQ(walk_file("two.gz", gzip("a\n") + gzip("b\n")).files[0].second, "a\nb\n");
  const Walked archive = walk_file("l.tar.gz", gzip(tar_of("rank_3.log", "hello\n")));
  ASSERT_EQ(archive.files.size(), 1u);
  EXPECT_EQ(archive.files[0].first, "l.tar.gz: rank_3.log");
  EXPECT_EQ(archive.files[0].second, "hello\n");
}

TEST(Walk, OpensZipArchives) {
  const std::string text(200'000, 'x');
  const Walked all = walk_file("l.zip", zip_of({{"a/", "", 0},
                                                {"a/rank_0.log", "hello\n"},
                                                {"rank_1.log", text, 8, false, true},
                                                {"rank_2.log", "stored\n", 0},
                                                {"rank_3.log", "zstd\n", 93},
                                                {"old.zip", zip_of({{"rank_4.log", "in\n"}}), 0}}));
  ASSERT_EQ(all.files.size(), 5u);
  EXPECT_EQ(all.files[0].second, "hello\n");
  EXPECT_EQ(all.files[1].second, text);
  EXPECT_EQ(all.files[2].second, "stored\n");
  EXPECT_EQ(all.files[3].second, "zstd\n");
  EXPECT_EQ(all.files[4].second, "in\n");
  EXPECT_TRUE(all.notes.empty());
}

TEST(Walk, SaysWhatItLeavesOutOfAZipArchive) {
  const Walked some = walk_file("some.zip", zip_of({{"secret.log", "????????????", 8, true},
                                                    {"lzma.log", "????", 14},
                                                    {"b.log", "b\n"}}));
  ASSERT_EQ(some.files.size(), 1u);
  EXPECT_EQ(some.files[0].second, "b\n");
  EXPECT_THAT(some.notes,
              testing::ElementsAre(HasSubstr("secret.log was left out: it is encrypted"),
                                   HasSubstr("method 14")));
  const std::string torn = zip_of({{"a.log", std::string(9000, 'y')}});
  EXPECT_THAT(walk_file("torn.zip", torn.substr(0, torn.size() / 2)).notes,
              Contains(HasSubstr("ends in the middle")));
}

// The extra field that tells the sizes of large files, cut short.
TEST(Walk, EndsWithAZipArchiveWhoseSizesAreCutOff) {
  const std::string name = "a.log";
  for (const size_t bytes : {0, 4, 8, 12}) {
    const std::string extra = little(1, 2) + little(bytes, 2) + std::string(bytes, '\1');
    const std::string head = "PK\x03\x04" + little(45, 2) + little(0, 2) + little(0, 2) +
                             little(0, 8) + little(0xffffffff, 4) + little(0xffffffff, 4) +
                             little(name.size(), 2) + little(extra.size(), 2) + name + extra;
    EXPECT_THAT(walk_file("cut.zip", head + "hello\n").notes,
                Contains(HasSubstr("ends in the middle")))
        << bytes;
  }
}

TEST(Walk, TakesCheckpointsForNoArchives) {
  const Walked all = walk_file("step-3.pt", zip_of({{"step-3/data.pkl", "x", 0}}));
  ASSERT_EQ(all.files.size(), 1u);
  EXPECT_EQ(all.files[0].first, "step-3.pt");
}

TEST(Walk, EndsWithArchivesThatHoldEachOtherOrUnfoldToMuch) {
  std::string nested = "end\n";
  for (int i = 0; i < 8; ++i) nested = zip_of({{"z.zip", nested, 0}});
  EXPECT_THAT(walk_file("deep.zip", nested).notes, Contains(HasSubstr("nested too deep")));
  // Twice packed zeros: each layer unfolds within its limit, both together do not.
  const std::string once = zip_of({{"a.log", std::string(64u << 20, '\0')}});
  const std::string path = testing::TempDir() + "/twice.zip";
  std::ofstream(path, std::ios::binary) << zip_of(std::vector<Zipped>(20, Zipped{"b.zip", once}));
  std::string told;
  WalkOptions options;
  options.note = [](const std::string&) {};
  options.file = [&](FoundFile& file) {
    const Status status = pass_over(file.bytes);
    if (!status) told = status.error().message;
  };
  EXPECT_TRUE(walk(path, options).ok());
  EXPECT_THAT(told, HasSubstr("bomb"));
}

TEST(Walk, SaysWhatIsTornOrDamaged) {
  std::string torn = gzip(std::string(100'000, 'x') + "\n");
  torn.resize(torn.size() / 2);
  EXPECT_THAT(walk_file("torn.gz", torn).notes, Contains(HasSubstr("ends in the middle")));
  std::string bad = zstd("hello");
  bad[6] = '\x7f';
  bad.resize(8);
  EXPECT_EQ(walk_file("bad.zst", bad).notes.size(), 1u);
  EXPECT_THAT(walk_file("cut.tar", tar_of("a", std::string(5000, 'x')).substr(0, 1500)).notes,
              Contains(HasSubstr("ends in the middle")));
}

TEST(Walk, FailsForAPathThatIsNotThere) {
  WalkOptions options;
  EXPECT_FALSE(walk("/does/not/exist", options).ok());
}

// Unfolds for ever, as a bomb would.
class Endless : public ByteSource {
 public:
  Endless() {
    std::string zeros(1u << 20, '\0');
    frame_ = zstd(zeros);
  }
  Result<size_t> read(char* out, size_t capacity) override {
    const size_t size = std::min(capacity, frame_.size());
    std::copy_n(frame_.data(), size, out);
    return size;
  }

 private:
  std::string frame_;
};

TEST(Decompress, StopsBombs) {
  const auto source = decompress(Compression::kZstd, std::make_unique<Endless>());
  std::string buffer(1u << 20, '\0');
  uint64_t total = 0;
  while (true) {
    const auto got = source->read(buffer.data(), buffer.size());
    if (!got) {
      EXPECT_THAT(got.error().message, HasSubstr("bomb"));
      break;
    }
    total += *got;
    ASSERT_LT(total, 2 * kFreeExpandBytes);
  }
}

}  // namespace
}  // namespace shanty
