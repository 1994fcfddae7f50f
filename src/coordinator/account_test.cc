#include "coordinator/account.h"

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/files.h"

namespace shanty {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class AccountTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/shanty-account-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    root_ = name;
    auto run = RunDir::create(root_ + "/run", {.run_id = "r", .started_unix_ns = 1});
    ASSERT_TRUE(run.ok()) << run.error().message;
    run_.emplace(std::move(*run));
    account_.emplace(Account::open(*run_).value());
  }
  void TearDown() override { EXPECT_TRUE(remove_tree(root_).ok()); }

  std::vector<Event> events() { return EventReader(run_->coordinator_events()).poll(); }

  std::string root_;
  std::optional<RunDir> run_;
  std::optional<Account> account_;
};

TEST_F(AccountTest, AFreshRunHasNoPast) {
  const Account::Past past = Account::read_past(*run_);
  EXPECT_THAT(past.failures, IsEmpty());
  EXPECT_EQ(past.generation, 0u);
  EXPECT_EQ(past.outcome, gang::Outcome::kNone);
}

TEST_F(AccountTest, TheNextLifeKnowsGenerationsFailuresAndTheEnd) {
  const gang::Failure failure{.unix_ns = 5,
                              .generation = 2,
                              .rank = 3,
                              .node_rank = 1,
                              .node = "here",
                              .reason = "exited with code 3",
                              .first_error = "caf\xc3\xa9",
                              .step = 60,
                              .signature = "s"};
  const gang::Failure lost_node{.generation = 3, .reason = "node lost"};  // no rank, no step
  account_->record({.kind = gang::Note::Kind::kWorldFormed, .generation = 2});
  account_->record(
      {.kind = gang::Note::Kind::kGenerationEnded, .generation = 2, .failure = failure});
  account_->record({.kind = gang::Note::Kind::kRestarting, .generation = 2, .failure = failure});
  account_->record(
      {.kind = gang::Note::Kind::kGenerationEnded, .generation = 3, .failure = lost_node});
  const Account::Past running = Account::read_past(*run_);
  EXPECT_EQ(running.generation, 3u);
  EXPECT_THAT(running.failures, testing::ElementsAre(failure, lost_node));
  EXPECT_EQ(running.outcome, gang::Outcome::kNone);

  account_->record({.kind = gang::Note::Kind::kEnded,
                    .generation = 3,
                    .text = "the same error twice",
                    .outcome = gang::Outcome::kFailed});
  const Account::Past ended = Account::read_past(*run_);
  EXPECT_EQ(ended.outcome, gang::Outcome::kFailed);
  EXPECT_EQ(ended.reason, "the same error twice");
}

TEST_F(AccountTest, APastWithFieldsOfWrongTypesIsPassedOver) {
  auto writer = EventWriter::open(run_->coordinator_events(), "coordinator").value();
  for (const char* extra : {R"({"reason":7})", R"({"reason":"x","rank":"three"})",
                            R"({"reason":"x","step":-1,"node":null})"}) {
    ASSERT_TRUE(writer
                    .append({.unix_ns = 1,
                             .kind = std::string(event_kind::kGenerationEnded),
                             .extra_json = extra})
                    .ok());
  }
  EXPECT_THAT(Account::read_past(*run_).failures, IsEmpty());
}

TEST_F(AccountTest, FactsAreKeptOnceAndVersionsThatDifferAreTold) {
  account_->record_facts(0, R"({"torch":"2.4","host":"a"})");
  account_->record_facts(0, R"({"torch":"2.4","host":"a"})");
  account_->record_facts(1, R"({"torch":"2.4","host":"b"})");
  EXPECT_THAT(events(), IsEmpty());
  account_->record_facts(2, R"({"torch":"2.5","host":"c"})");
  const auto told = events();
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_THAT(told[0].text, HasSubstr(R"(node 2 has torch "2.5", node 0 has "2.4")"));
  const auto versions = read_file(run_->versions_jsonl(), 10'000);
  ASSERT_TRUE(versions.ok());
  EXPECT_EQ(std::count(versions->begin(), versions->end(), '\n'), 3);
}

}  // namespace
}  // namespace shanty
