#include "logs/clocks.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "logs/scan.h"

namespace shanty {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

LogBook scan_files(const std::vector<std::pair<std::string, std::string>>& files) {
  LogScanner scanner;
  for (const auto& [name, text] : files) {
    const auto source = memory_source(text);
    scanner.scan(*source,
                 {.name = name, .around_unix_ns = 1'764'500'000'000'000'000, .time_at = nullptr});
  }
  return scanner.finish();
}

std::string complete(const std::string& time, int rank) {
  const std::string r = std::to_string(rank);
  return time + " node-" + r + ":10" + r + ":10" + r + " [0] NCCL INFO comm 0x1 rank " + r +
         " nranks 3 cudaDev 0 busId 1000 commId 0xabc - Init COMPLETE\n";
}

std::vector<int> ranks_of_exceptions(const LogBook& book) {
  std::vector<int> out;
  for (const Record& record : book.records) {
    if (record.event == "exception") out.push_back(record.rank);
  }
  return out;
}

TEST(Clocks, OfANodeThatIsMinutesAheadAreMoved) {
  // Rank 1 fails first; its clock is ten minutes ahead.
  const LogBook book = scan_files({
      {"node-0/rank_0.log",
       complete("2025-11-30T10:00:00Z", 0) + "2025-11-30T10:05:02Z ValueError: a consequence\n"},
      {"node-1/rank_1.log",
       complete("2025-11-30T10:10:00Z", 1) + "2025-11-30T10:15:01Z ValueError: the cause\n"},
      {"node-2/rank_2.log",
       complete("2025-11-30T10:00:00Z", 2) + "2025-11-30T10:05:03Z ValueError: a consequence\n"},
  });
  EXPECT_EQ(ranks_of_exceptions(book), (std::vector<int>{1, 0, 2}));
  EXPECT_THAT(book.notes, Contains(HasSubstr("the clock of node-1 is 600.0 s ahead")));
}

TEST(Clocks, OfAnotherTimeZoneAreMoved) {
  std::string here;
  std::string there;
  std::string third;
  for (int step = 0; step < 20; ++step) {
    const std::string at = std::to_string(10 + step);
    here += "2025-11-30T10:00:" + at + "Z step " + std::to_string(step) + " loss 2.0\n";
    there += "2025-11-30 18:00:" + at + " step " + std::to_string(step) + " loss 2.0\n";
    third += "2025-11-30T10:00:" + at + "Z step " + std::to_string(step) + " loss 2.0\n";
  }
  const LogBook book = scan_files({
      {"node-0/rank_0.log", here + "2025-11-30T10:01:02Z ValueError: a consequence\n"},
      {"node-1/rank_1.log", there + "2025-11-30 18:01:01 ValueError: the cause\n"},
      {"node-2/rank_2.log", third + "2025-11-30T10:01:03Z ValueError: a consequence\n"},
  });
  EXPECT_EQ(ranks_of_exceptions(book), (std::vector<int>{1, 0, 2}));
  EXPECT_THAT(book.notes, Contains(HasSubstr("28800.0 s ahead")));
}

TEST(Clocks, ThatAgreeStayAsTheyAre) {
  const LogBook book = scan_files({
      {"node-0/rank_0.log",
       complete("2025-11-30T10:00:00.000Z", 0) + "2025-11-30T10:05:01Z ValueError: a\n"},
      {"node-1/rank_1.log",
       complete("2025-11-30T10:00:00.400Z", 1) + "2025-11-30T10:05:02Z ValueError: b\n"},
  });
  EXPECT_EQ(ranks_of_exceptions(book), (std::vector<int>{0, 1}));
  EXPECT_THAT(book.notes, IsEmpty());
}

std::string timeout(const std::string& time, int rank) {
  return "[rank" + std::to_string(rank) + "]:[E1130 " + time +
         ".000000 ProcessGroupNCCL.cpp:616] [Rank " + std::to_string(rank) +
         "] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=70, OpType=ALLREDUCE, "
         "NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600010 milliseconds before timing "
         "out.\n";
}

// Who came half a minute later times out half a minute later: that is no fault of a clock.
TEST(Clocks, TimeOutsThatAreApartAreNotTakenForAnOffset) {
  const LogBook book = scan_files({{"node-0/rank_0.log", timeout("10:00:00", 0)},
                                   {"node-1/rank_1.log", timeout("10:00:30", 1)}});
  EXPECT_THAT(book.notes, IsEmpty());
  const LogBook hours = scan_files({{"node-0/rank_0.log", timeout("10:00:00", 0)},
                                    {"node-1/rank_1.log", timeout("17:00:01", 1)}});
  EXPECT_THAT(hours.notes, Contains(HasSubstr("25201.0 s")));
}

// Two runs of one rank that fail alike are two runs.
TEST(Clocks, OneRankInTwoFilesIsNotMoved) {
  const LogBook book = scan_files({{"monday/rank_0.log", timeout("10:00:00", 0)},
                                   {"tuesday/rank_0.log", timeout("17:00:00", 0)}});
  EXPECT_THAT(book.notes, IsEmpty());
}

TEST(Clocks, LogsWithoutTimesAreLeft) {
  const LogBook book = scan_files({{"node-0/rank_0.log", "step 1 loss 2\nValueError: a\n"},
                                   {"node-1/rank_1.log", "step 1 loss 2\nValueError: b\n"}});
  EXPECT_EQ(ranks_of_exceptions(book), (std::vector<int>{0, 1}));
  EXPECT_THAT(book.notes, IsEmpty());
}

}  // namespace
}  // namespace shanty
