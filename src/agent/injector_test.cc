#include "agent/injector.h"

#include <csignal>

#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class InjectorTest : public testing::Test {
 protected:
  // Ranks 4 and 5 are this node's.
  gang::World world_{.generation = 1, .node_rank = 2, .first_rank = 4, .local_size = 2};
  std::vector<Worker> workers_;
  std::optional<uint64_t> steps_[2];
  TimePoint now_;

  std::vector<Injector::Done> check(Injector& injector) {
    return injector.check(
        world_, workers_, [this](int local_rank) { return steps_[local_rank]; }, now_);
  }

  // A process that sleeps stands for rank 5.
  void SetUp() override {
    const pid_t pid = ::fork();
    if (pid == 0) {
      for (;;) ::pause();
    }
    workers_.push_back({.local_rank = 0, .rank = 4});
    workers_.push_back({.local_rank = 1, .rank = 5, .pid = pid, .alive = true});
  }
  void TearDown() override {
    ::kill(workers_[1].pid, SIGKILL);
    ::waitpid(workers_[1].pid, nullptr, 0);
  }
  int next_change() {
    int status = 0;
    ::waitpid(workers_[1].pid, &status, WUNTRACED | WCONTINUED);
    return status;
  }
};

TEST_F(InjectorTest, WaitsForItsStepAndHappensOnce) {
  Injector injector(
      std::vector<Inject>{{.kind = InjectKind::kNetcut, .rank = 5, .step = 3, .seconds = 7}});
  EXPECT_THAT(check(injector), IsEmpty());
  steps_[0] = 9;  // the neighbour's steps do not count
  steps_[1] = 2;
  EXPECT_THAT(check(injector), IsEmpty());
  EXPECT_TRUE(injector.active());
  steps_[1] = 4;  // 3 was not seen by itself
  const auto done = check(injector);
  ASSERT_THAT(done, SizeIs(1));
  EXPECT_EQ(done[0].netcut_s, 7);
  EXPECT_FALSE(injector.active());
  EXPECT_THAT(check(injector), IsEmpty());
}

TEST_F(InjectorTest, OtherNodesRanksAndGenerationsAreNotItsAffair) {
  for (const int rank : {0, 3, 6}) {
    Injector injector(std::vector<Inject>{{.rank = rank}});
    EXPECT_THAT(check(injector), IsEmpty()) << rank;
  }
  Injector later(std::vector<Inject>{{.rank = 5, .generation = 2}});
  Injector elsewhere(std::vector<Inject>{{.kind = InjectKind::kNetcut, .node_rank = 1}});
  EXPECT_THAT(check(later), IsEmpty());
  EXPECT_THAT(check(elsewhere), IsEmpty());
}

TEST_F(InjectorTest, AFaultOfTheNodeGoesByTheStepsOfItsFirstRank) {
  Injector injector(std::vector<Inject>{{.kind = InjectKind::kNetcut, .node_rank = 2, .step = 1}});
  steps_[1] = 1;
  EXPECT_THAT(check(injector), IsEmpty());
  steps_[0] = 1;
  EXPECT_THAT(check(injector), SizeIs(1));
}

TEST_F(InjectorTest, KillsItsRank) {
  Injector injector(std::vector<Inject>{{.rank = 5}});
  EXPECT_THAT(check(injector), SizeIs(1));
  EXPECT_EQ(WTERMSIG(next_change()), SIGKILL);
}

TEST_F(InjectorTest, SaysWhenTheRankIsDeadAlready) {
  Injector injector(std::vector<Inject>{{.rank = 4}});
  const auto done = check(injector);
  ASSERT_THAT(done, SizeIs(1));
  EXPECT_THAT(done[0].text, HasSubstr("not injected"));
}

TEST_F(InjectorTest, ASlowedRankStandsStillForItsShareAndIsForgottenWhenDead) {
  Injector injector(std::vector<Inject>{{.kind = InjectKind::kSlow, .rank = 5, .factor = 4}});
  EXPECT_THAT(check(injector), SizeIs(1));
  EXPECT_TRUE(WIFSTOPPED(next_change()));
  now_ = now_ + std::chrono::milliseconds(74);  // of 100, a quarter is left to it
  check(injector);
  EXPECT_EQ(::waitpid(workers_[1].pid, nullptr, WCONTINUED | WNOHANG), 0);
  now_ = now_ + std::chrono::milliseconds(2);
  check(injector);
  EXPECT_TRUE(WIFCONTINUED(next_change()));
  now_ = now_ + std::chrono::milliseconds(26);
  check(injector);
  EXPECT_TRUE(WIFSTOPPED(next_change()));
  EXPECT_TRUE(injector.active());
  workers_[1].alive = false;
  check(injector);
  EXPECT_FALSE(injector.active());
}

}  // namespace
}  // namespace shanty
