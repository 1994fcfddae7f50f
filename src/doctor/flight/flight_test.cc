#include "doctor/flight/flight.h"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doctor/flight/dump.h"
#include "doctor/flight/test_dump.h"
#include "doctor/flight/words.h"

namespace shanty::flight {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<int> range(int count) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(i);
  return ranks;
}

// A healthy job of `ranks` in one group that went to collective `steps`; `change` spoils dumps.
using Change = std::function<void(int rank, TestDump& dump)>;
std::vector<FlightFile> job(int ranks, uint32_t steps, const Change& change) {
  std::vector<FlightFile> files;
  for (int rank = 0; rank < ranks; ++rank) {
    TestDump dump{.groups = {{"0", "default_pg", range(ranks)}}};
    for (uint32_t seq = 1; seq <= steps; ++seq) dump.entries.push_back({.seq = seq});
    change(rank, dump);
    if (dump.groups.empty()) continue;  // no dump of it
    files.push_back({fmt::format("nccl_trace_rank_{}", rank), "", to_pickle(dump)});
  }
  return files;
}

TestEntry pending(uint32_t seq) {
  return {.seq = seq, .state = "started", .retired = false, .line = 40};
}

Finding only_finding(const std::vector<Finding>& findings) {
  EXPECT_EQ(findings.size(), 1U);
  for (const Finding& finding : findings) SCOPED_TRACE(finding.code + " " + finding.message);
  return findings.empty() ? Finding() : findings.front();
}

TEST(Flight, NothingIsStuckInAHealthyJob) {
  const Finding found = only_finding(diagnose_flight(job(4, 10, [](int, TestDump&) {})));
  EXPECT_EQ(found.code, "HANG107");
  EXPECT_EQ(found.severity, Severity::kNote);
}

TEST(Flight, NamesTheRankThatNeverArrivedAndWhereItWasLast) {
  const auto files = job(8, 10, [](int rank, TestDump& dump) {
    if (rank != 5) dump.entries.push_back(pending(11));
  });
  const Finding found = only_finding(diagnose_flight(files));
  EXPECT_EQ(found.code, "HANG102");
  EXPECT_EQ(found.severity, Severity::kError);
  EXPECT_THAT(found.subject.ranks, ElementsAre(5));
  EXPECT_THAT(found.message, HasSubstr("all_reduce #11"));
  EXPECT_THAT(found.message, HasSubstr("7 of its 8 ranks wait"));
  EXPECT_THAT(found.message, HasSubstr("#10 of default_pg at train.py:29 in step (completed)"));
  EXPECT_EQ(found.evidence.front().file, "nccl_trace_rank_5");
  EXPECT_EQ(found.evidence.front().line, 10U);
}

TEST(Flight, SeveralMissingRanksAreOneFinding) {
  const auto files = job(8, 10, [](int rank, TestDump& dump) {
    if (rank < 5) dump.entries.push_back(pending(11));
  });
  EXPECT_THAT(only_finding(diagnose_flight(files)).subject.ranks, ElementsAre(5, 6, 7));
}

TEST(Flight, AnotherOperationIsTheFewersFault) {
  const auto files = job(4, 3, [](int rank, TestDump& dump) {
    TestEntry last = pending(4);
    if (rank == 2) last.name = "nccl:broadcast";
    dump.entries.push_back(last);
  });
  const Finding found = only_finding(diagnose_flight(files));
  EXPECT_EQ(found.code, "HANG101");
  EXPECT_THAT(found.subject.ranks, ElementsAre(2));
  EXPECT_THAT(found.message, HasSubstr("rank 2 called broadcast"));
}

TEST(Flight, BetweenTwoRanksNobodyIsBlamedForAnotherShape) {
  const auto files = job(2, 3, [](int rank, TestDump& dump) {
    TestEntry last = pending(4);
    last.sizes = {rank == 0 ? 32 : 48};
    dump.entries.push_back(last);
  });
  const Finding found = only_finding(diagnose_flight(files));
  EXPECT_EQ(found.code, "HANG101");
  EXPECT_THAT(found.subject.ranks, ElementsAre(0, 1));
  EXPECT_THAT(found.message, HasSubstr("[[32]]"));
  EXPECT_THAT(found.message, HasSubstr("[[48]]"));
}

TEST(Flight, AnotherDtypeIsFound) {
  const auto files = job(4, 3, [](int rank, TestDump& dump) {
    TestEntry last = pending(4);
    if (rank == 1) last.dtype = "BFloat16";
    dump.entries.push_back(last);
  });
  const Finding found = only_finding(diagnose_flight(files));
  EXPECT_EQ(found.code, "HANG101");
  EXPECT_THAT(found.subject.ranks, ElementsAre(1));
}

TEST(Flight, ASkippedCallIsSaidToBeOne) {
  const auto files = job(4, 3, [](int rank, TestDump& dump) {
    TestEntry reduce = pending(4);
    TestEntry gather = pending(4);
    gather.name = "nccl:_all_gather_base";
    if (rank != 3) {
      dump.entries.push_back(reduce);
      gather.seq = 5;
    }
    dump.entries.push_back(gather);
  });
  const Finding found = only_finding(diagnose_flight(files));
  EXPECT_EQ(found.code, "HANG101");
  EXPECT_THAT(found.subject.ranks, ElementsAre(3));
  EXPECT_THAT(found.message, HasSubstr("left one call out"));
}

TEST(Flight, UnevenAllToAllIsNoMismatch) {
  const auto files = job(4, 3, [](int rank, TestDump& dump) {
    dump.entries.push_back(
        {.seq = 4, .name = "nccl:all_to_all", .sizes = {100 + rank}, .state = "completed"});
  });
  EXPECT_EQ(only_finding(diagnose_flight(files)).code, "HANG107");
}

TEST(Flight, WhereAllArrivedTheNetworkIsTheSuspect) {
  const auto files = job(4, 10, [](int, TestDump& dump) { dump.entries.push_back(pending(11)); });
  const Finding found = only_finding(diagnose_flight(files));
  EXPECT_EQ(found.code, "NET104");
  EXPECT_EQ(found.failure_class, "fabric_fault");
}

TEST(Flight, TheRankWhoseDeviceDidNotStartIsNamed) {
  const auto files = job(4, 10, [](int rank, TestDump& dump) {
    dump.entries.push_back(pending(11));
    if (rank == 1) dump.entries.back().state = "scheduled";
  });
  const Finding found = only_finding(diagnose_flight(files));
  EXPECT_EQ(found.code, "NET104");
  EXPECT_THAT(found.subject.ranks, ElementsAre(1));
}

TEST(Flight, ARankWithoutADumpIsTheSuspect) {
  const auto files = job(4, 10, [](int rank, TestDump& dump) {
    dump.entries.push_back(pending(11));
    if (rank == 2) dump.groups.clear();
  });
  const Finding found = only_finding(diagnose_flight(files));
  EXPECT_EQ(found.code, "RUN101");
  EXPECT_EQ(found.failure_class, "rank_died_early");
  EXPECT_THAT(found.subject.ranks, ElementsAre(2));
}

TEST(Flight, RingsThatWrappedAtDifferentPointsAreCompared) {
  const auto files = job(4, 100, [](int rank, TestDump& dump) {
    if (rank != 1) dump.entries.push_back(pending(101));
    const int lost = 10 * (rank + 1);
    dump.entries.erase(dump.entries.begin(), dump.entries.begin() + lost);
    dump.first_record = lost;
  });
  const Finding found = only_finding(diagnose_flight(files));
  EXPECT_EQ(found.code, "HANG102");
  EXPECT_THAT(found.subject.ranks, ElementsAre(1));
}

// 2 x 2 x 2: TP pairs (0,1) (2,3) ..., DP groups (0,4) (1,5) ... Rank 5 is away; its TP peer 4
// waits in TP, 0 waits for 4 in DP, and 1 for 0 in TP.
TEST(Flight, FollowsNestedGroupsToTheRankThatWaitsForNobody) {
  std::vector<FlightFile> files;
  for (int rank = 0; rank < 8; ++rank) {
    const int tp = rank / 2;
    const int dp = rank % 4;
    TestDump dump{.groups = {{fmt::format("tp{}", tp), "TP", {2 * tp, 2 * tp + 1}},
                             {fmt::format("dp{}", dp), "DP", {dp, dp + 4}}}};
    const auto in_tp = [&](uint32_t seq) {
      TestEntry e{.group = fmt::format("tp{}", tp), .desc = "TP", .pg_id = 1, .seq = seq};
      return e;
    };
    const auto in_dp = [&](uint32_t seq) {
      TestEntry e{.group = fmt::format("dp{}", dp), .desc = "DP", .pg_id = 2, .seq = seq};
      return e;
    };
    dump.entries = {in_tp(1), in_dp(1)};
    const auto wait = [&](TestEntry e) {
      e.state = "started";
      e.retired = false;
      dump.entries.push_back(e);
    };
    if (rank == 4) wait(in_tp(2));
    if (rank == 0) {
      dump.entries.push_back(in_tp(2));
      wait(in_dp(2));
    }
    if (rank == 1) {
      dump.entries.push_back(in_tp(2));
      wait(in_tp(3));
    }
    files.push_back({fmt::format("dump_{}", rank), "", to_pickle(dump)});
  }
  const Finding found = only_finding(diagnose_flight(files));
  EXPECT_EQ(found.code, "HANG102");
  EXPECT_THAT(found.subject.ranks, ElementsAre(5));
  EXPECT_THAT(found.message, HasSubstr("more wait because of that"));
}

TEST(Flight, TwoGroupsInOppositeOrderAreACircle) {
  std::vector<FlightFile> files;
  for (int rank = 0; rank < 2; ++rank) {
    TestDump dump{.groups = {{"a", "A", {0, 1}}, {"b", "B", {0, 1}}}};
    TestEntry e{.group = rank == 0 ? "a" : "b",
                .desc = rank == 0 ? "A" : "B",
                .seq = 1,
                .state = "started",
                .retired = false};
    dump.entries = {e};
    files.push_back({fmt::format("dump_{}", rank), "", to_pickle(dump)});
  }
  const Finding found = only_finding(diagnose_flight(files));
  EXPECT_EQ(found.code, "HANG106");
  EXPECT_THAT(found.subject.ranks, ElementsAre(0, 1));
}

TEST(Flight, TwoCulpritsInTwoGroupsAreTwoFindings) {
  std::vector<FlightFile> files;
  for (int rank = 0; rank < 6; ++rank) {
    const bool left = rank < 3;
    TestDump dump{
        .groups = {left ? TestGroup{"l", "L", {0, 1, 2}} : TestGroup{"r", "R", {3, 4, 5}}}};
    TestEntry e{.group = left ? "l" : "r", .desc = left ? "L" : "R", .seq = 1};
    dump.entries = {e};
    e.seq = 2;
    e.state = "started";
    e.retired = false;
    if (rank != 1 && rank != 3) dump.entries.push_back(e);
    files.push_back({fmt::format("dump_{}", rank), "", to_pickle(dump)});
  }
  const auto findings = diagnose_flight(files);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_THAT(findings[0].subject.ranks, ElementsAre(1));
  EXPECT_THAT(findings[1].subject.ranks, ElementsAre(3));
}

TestEntry p2p(const std::string& name, uint32_t seq, const char* state) {
  return {.seq = seq, .name = name, .state = state, .retired = false, .p2p = true};
}

TEST(Flight, AReceiveWithoutItsSendNamesTheSender) {
  const auto files = job(3, 2, [](int rank, TestDump& dump) {
    if (rank == 1) dump.entries.push_back(p2p("nccl:recv 1<-0", 1, "started"));
    if (rank == 2) dump.entries.push_back(p2p("nccl:recv 2<-1", 1, "started"));
  });
  const Finding found = only_finding(diagnose_flight(files));
  EXPECT_EQ(found.code, "HANG102");
  EXPECT_THAT(found.subject.ranks, ElementsAre(0));
  EXPECT_THAT(found.message, HasSubstr("2 ranks wait"));
}

TEST(Flight, ASendAndAReceiveOfOtherSizesDoNotFit) {
  const auto files = job(2, 2, [](int rank, TestDump& dump) {
    TestEntry e = p2p(rank == 0 ? "nccl:send 0->1" : "nccl:recv 1<-0", 1, "started");
    e.sizes = {rank == 0 ? 8 : 16};
    dump.entries.push_back(e);
  });
  const Finding found = only_finding(diagnose_flight(files));
  EXPECT_EQ(found.code, "HANG101");
  EXPECT_THAT(found.subject.ranks, ElementsAre(0, 1));
}

// The sends of a batch have no state of their own: the entry that ends it has.
TEST(Flight, ABatchOfSendsIsDoneWhenItsEndIs) {
  const auto files = job(2, 2, [](int rank, TestDump& dump) {
    dump.entries.push_back(p2p(rank == 0 ? "nccl:send 0->1" : "nccl:recv 1<-0", 1, "scheduled"));
    dump.entries.push_back(p2p("nccl:coalesced", 1, "completed"));
  });
  EXPECT_EQ(only_finding(diagnose_flight(files)).code, "HANG107");
}

TEST(Flight, AHostilePickleIsRefusedAndTheOthersAreRead) {
  auto files = job(3, 4, [](int rank, TestDump& dump) {
    if (rank != 2) dump.entries.push_back(pending(5));
  });
  files.push_back({"nccl_trace_rank_3", "", std::string("\x80\x02") + "cos\nsystem\n(tR."});
  const auto findings = diagnose_flight(files);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_THAT(findings[0].subject.ranks, ElementsAre(2));
  EXPECT_EQ(findings[1].code, "HANG108");
  EXPECT_THAT(findings[1].evidence.front().text, HasSubstr("GLOBAL at byte 2"));
}

// Entries like one before are taken by their pattern, all others are interpreted.
TEST(Flight, EntriesTakenByTheirPatternAreTheSame) {
  TestDump dump{.groups = {{"0", "default_pg", {0, 1}}, {"7", "TP", {0, 1}}}};
  for (uint32_t i = 1; i < 400; ++i) {
    TestEntry e{.seq = i, .created_unix_ns = 1'795'971'367'000'000'000 + i};
    if (i % 3 == 0) e.group = "7", e.desc = "TP", e.pg_id = 1;
    if (i % 5 == 0) e.sizes = {i % 7, 300};
    if (i % 11 == 0) e.state = "started", e.retired = false;
    if (i % 13 == 0) e.line = 31;
    if (i % 17 == 0) e.p2p = true, e.name = "nccl:send 0->1";
    dump.entries.push_back(e);
  }
  Tables tables;
  DumpReader reader(tables);
  const auto trace = reader.read(to_pickle(dump));
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->entries.size(), dump.entries.size());
  for (size_t i = 0; i < dump.entries.size(); ++i) {
    const TestEntry& expected = dump.entries[i];
    const Entry& got = trace->entries[i];
    EXPECT_EQ(got.seq, expected.seq);
    EXPECT_EQ(got.created_unix_ns, expected.created_unix_ns);
    EXPECT_EQ(tables.group(got.group).name, expected.group);
    EXPECT_EQ(got.p2p, expected.p2p ? 1U : 0U);
    EXPECT_EQ(got.retired, expected.retired ? 1U : 0U);
    EXPECT_EQ(got.state, expected.state == "started" ? kStarted : kCompleted);
    EXPECT_EQ("nccl:" + tables.call(got.call).op, expected.name.substr(0, expected.name.find(' ')));
    const std::string sizes = expected.sizes.size() == 1
                                  ? "[[1024]] Float"
                                  : fmt::format("[[{}, 300]] Float", expected.sizes[0]);
    EXPECT_EQ(tables.call(got.call).shapes, sizes + " -> " + sizes);
    EXPECT_EQ(tables.place(got.stack), fmt::format("train.py:{} in step", expected.line));
  }
}

TEST(Flight, NamesOfDumpsTellRankAndSet) {
  EXPECT_EQ(parse_dump_name("/tmp/nccl_trace_rank_12").rank, 12);
  EXPECT_EQ(parse_dump_name("hang_after_rank0.pickle").prefix, "hang_after_rank");
  EXPECT_EQ(parse_dump_name("n3/dump_7.json").rank, 7);
  EXPECT_TRUE(parse_dump_name("n3/dump_7.json").json);
  EXPECT_EQ(parse_dump_name("job2_rank-3_late.pkl").rank, 3);
  EXPECT_EQ(parse_dump_name("trace.bin").rank, -1);
}

TEST(Flight, DumpsOfDirectoriesPerNodeComeTogether) {
  auto files = job(4, 4, [](int rank, TestDump& dump) {
    if (rank != 2) dump.entries.push_back(pending(5));
  });
  for (size_t i = 0; i < files.size(); ++i)
    files[i].name = fmt::format("node{}/{}", i / 2, files[i].name);
  EXPECT_THAT(only_finding(diagnose_flight(files)).subject.ranks, ElementsAre(2));
}

// Real dumps of gloo jobs lie beside the project, where they are at hand.
std::vector<Finding> diagnose_real(const std::string& scenario) {
  const std::filesystem::path directory = std::filesystem::path("..") / "shared" / "fr-dumps";
  std::vector<FlightFile> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(scenario)) files.push_back({name, entry.path(), ""});
  }
  return files.empty() ? std::vector<Finding>() : diagnose_flight(files);
}

struct RealCase {
  const char* scenario;
  const char* code;
  std::vector<int> ranks;
};

TEST(Flight, FindsWhatHappenedInRealGlooJobs) {
  const RealCase cases[] = {
      {"hang_during", "HANG102", {1}},          {"hang_after", "HANG102", {1}},
      {"optype_during", "HANG101", {0, 1}},     {"optype_after", "HANG101", {0, 1}},
      {"mismatch_enqueued", "HANG101", {0, 1}}, {"healthy_after", "HANG107", {}},
      {"healthy_during", "HANG107", {}},
  };
  if (diagnose_real("hang_during").empty()) GTEST_SKIP() << "../shared/fr-dumps is not there";
  for (const RealCase& one : cases) {
    const auto findings = diagnose_real(one.scenario);
    ASSERT_EQ(findings.size(), 1U) << one.scenario;
    EXPECT_EQ(findings[0].code, one.code) << one.scenario << ": " << findings[0].message;
    EXPECT_EQ(findings[0].subject.ranks, one.ranks) << one.scenario;
  }
}

TEST(Flight, ListsRanksShortly) {
  EXPECT_EQ(ranks_text({5}), "rank 5");
  EXPECT_EQ(ranks_text({7, 0, 1, 2, 3}), "ranks 0-3, 7");
  EXPECT_EQ(ranks_text({1, 2}), "ranks 1, 2");
}

}  // namespace
}  // namespace shanty::flight
