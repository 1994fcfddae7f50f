#include "agent/worker_env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

gang::World world_of_four() {
  return {.generation = 3,
          .node_rank = 1,
          .node_count = 2,
          .first_rank = 2,
          .local_size = 2,
          .world_size = 4,
          .master_addr = "node0",
          .master_port = 1234,
          .restart_count = 2};
}

TEST(WorkerLaunch, GivesTorchrunsContract) {
  const AgentSpec spec{.command = {"python", "train.py", "--id", "w${local_rank}"},
                       .elastic_run_id = "job",
                       .elastic_max_restarts = 5};
  const WorkerLaunch launch = make_worker_launch(spec, world_of_four(), {.local_rank = 1}, {});
  EXPECT_EQ(launch.argv, (std::vector<std::string>{"python", "train.py", "--id", "w1"}));
  for (const char* entry :
       {"RANK=3", "LOCAL_RANK=1", "GROUP_RANK=1", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=2",
        "GROUP_WORLD_SIZE=2", "MASTER_ADDR=node0", "MASTER_PORT=1234",
        "TORCHELASTIC_RESTART_COUNT=2", "TORCHELASTIC_MAX_RESTARTS=5", "TORCHELASTIC_RUN_ID=job",
        "OMP_NUM_THREADS=1"}) {
    EXPECT_THAT(launch.env, Contains(entry));
  }
}

TEST(WorkerLaunch, ReplacesTheLocalRankInArgumentsAsATemplateOfPython) {
  const AgentSpec spec{.command = {"$local_rank", "$local_rank.log", "a${local_rank}b", "$$", "$$$",
                                   "$local_ranks", "${local_rank", "$RANK", "${other}", "$"}};
  const WorkerLaunch launch = make_worker_launch(spec, world_of_four(), {.local_rank = 12}, {});
  EXPECT_EQ(launch.argv,
            (std::vector<std::string>{"$local_rank", "12.log", "a12b", "$", "$$", "$local_ranks",
                                      "${local_rank", "$RANK", "${other}", "$"}));
}

TEST(WorkerLaunch, KeepsTheUsersThreadsAndPythonPathAndHidesTheSecret) {
  const AgentSpec spec{.command = {"x"}, .python_dir = "/run/python"};
  const WorkerLaunch launch =
      make_worker_launch(spec, world_of_four(), {.local_rank = 0, .ring_fd = 7},
                         {"OMP_NUM_THREADS=8", "PYTHONPATH=/mine", "SHANTY_TOKEN=secret"});
  EXPECT_THAT(launch.env, Contains("OMP_NUM_THREADS=8"));
  EXPECT_THAT(launch.env, Contains("PYTHONPATH=/run/python/shanty_boot:/run/python:/mine"));
  EXPECT_THAT(launch.env, Contains("SHANTY_RING_FD=7"));
  EXPECT_THAT(launch.env, Not(Contains(HasSubstr("secret"))));
}

// An empty part would put the working directory on sys.path.
TEST(WorkerLaunch, AnEmptyPythonPathOfTheUserAddsNothing) {
  const AgentSpec spec{.command = {"x"}, .python_dir = "/run/python"};
  const WorkerLaunch launch =
      make_worker_launch(spec, world_of_four(), {.ring_fd = 7}, {"PYTHONPATH="});
  EXPECT_THAT(launch.env, Contains("PYTHONPATH=/run/python/shanty_boot:/run/python"));
}

TEST(WorkerLaunch, OneRankAloneKeepsAllCores) {
  gang::World world = world_of_four();
  world.local_size = 1;
  const AgentSpec alone{.command = {"x"}};
  EXPECT_THAT(make_worker_launch(alone, world, {}, {}).env,
              Not(Contains(StartsWith("OMP_NUM_THREADS="))));
  const AgentSpec neighbour{.nodes_here = 2, .command = {"x"}};
  EXPECT_THAT(make_worker_launch(neighbour, world, {}, {}).env, Contains("OMP_NUM_THREADS=1"));
}

}  // namespace
}  // namespace shanty
