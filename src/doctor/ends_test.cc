// Logs that end badly in ways that no row names: tracebacks of any kind, launchers' last words.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doctor/test_case.h"

namespace shanty {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Told {
  const char* lines;
  const char* failure_class;
};

class Ends : public testing::TestWithParam<Told> {};

TEST_P(Ends, AreTold) { EXPECT_EQ(class_of(GetParam().lines), GetParam().failure_class); }

constexpr Told kTracebacks[] = {
    {"Traceback (most recent call last):\n"
     "  File \"/job/data.py\", line 9, in load\n"
     "    return decode(raw)\n"
     "image.error: no such colour\n",
     "rank_died_early"},
    {"app7 >> Traceback (most recent call last):\n"
     "app7 >>   File \"/job/data.py\", line 9, in load\n"
     "app7 >>     return table[key]\n"
     "app7 >> KeyError: 'a'\n",
     "rank_died_early"},
    {"ValueError: Caught ValueError in DataLoader worker process 2.\n", "rank_died_early"},
    {"  File \"/x/torch/distributed/rendezvous.py\", line 9, in _env_rendezvous_handler\n"
     "    store = TCPStore(\n"
     "RuntimeError: this build has no such store\n",
     "rendezvous_store"},
    {"2025-11-29 09:00:00,123 - Trainer - INFO - [rank7]:   File "
     "\"/x/torch/distributed/checkpoint/loader.py\", line 3, in step\n"
     "2025-11-29 09:00:00,123 - Trainer - INFO - [rank7]:     assert found\n"
     "2025-11-29 09:00:00,123 - Trainer - INFO - [rank7]: AssertionError\n",
     "checkpoint"},
    {" |  | 2025-11-29T09:00:00.123-06:00 | [3]: RuntimeError: dtypes differ | Link\n",
     "rank_died_early"},
    {"Traceback (most recent call last):\n  File \"/job/main.py\", line 9, in <module>\n",
     "rank_died_early"},
};
INSTANTIATE_TEST_SUITE_P(Tracebacks, Ends, testing::ValuesIn(kTracebacks));

constexpr Told kLastWords[] = {
    {"*** SIGABRT received at time=1764417600 ***\n", "rank_died_early"},
    {"F 9 9 client.cc:7] Check failed: status.ok()\n", "rank_died_early"},
    {"The actor is dead because its node has died. Node Id: 0a0b\n", "rank_died_early"},
    {"RuntimeError: NCCL communicator was aborted.\n", "rank_died_early"},
    {"subprocess.CalledProcessError: Command 'train' returned non-zero exit status 1.\n",
     "rank_died_early"},
    {"Error: failed to run torchrun --nnodes=2 train.py on 10.1.2.3\n", "rank_died_early"},
    {"time=\"x\" level=info msg=\"Pod: team.train-worker-0 exited with code 1\"\n",
     "rank_died_early"},
    {"10:00:00 Failed - Training job failed\n", "rank_died_early"},
    {"[2025-11-29T09:00:00.1] requeue job JobId=7 due to failure of node gpu-7\n",
     "rank_died_early"},
    {"launcher (09:00:00) - Caught signal USR1 on gpu-7: this job is preempted.\n",
     "rank_died_early"},
    {"EI0002: the wait of the Notify register times out. remote rank [3]\n", "rank_busy"},
    {"EJ0001: Failed to initialize the HCCP process. Reason: an earlier one is running.\n",
     "gpu_assignment"},
};
INSTANTIATE_TEST_SUITE_P(LastWords, Ends, testing::ValuesIn(kLastWords));

constexpr Told kKinds[] = {
    {"Epoch 1: 29%|##  | 9/32 [0:28<8:33, 1.33s/it, loss=3.2]Terminated \n", "rank_died_early"},
    {"Epoch 1: 29%|##  | 9/32 [0:28<8:33, 1.33s/it, loss=3.2]Killed\n", "host_oom"},
    {"[rank1]: Last error:\n[rank1]: Failed to open libnvidia-ml.so.1\n", "driver_image"},
    {"RuntimeError: cuda runtime error (2) : out of memory at /x/Storage.cu:66\n", "gpu_oom"},
    {"RuntimeError: cuda runtime error (74) : misaligned operand at /x/Math.cu:9\n",
     "app_cuda_fault"},
    {"n1:5:9 [0] NCCL WARN unlink shared memory /dev/shm/nccl-a1 failed, error: No such file or "
     "directory\n",
     "shm"},
    {"non-zero status: 4 ibv_poll_cq failed, status: 4\n", "rdma_config"},
    {"WARN: Function: open_ep Line: 9: NET/OFI Couldn't open EP. RC: -22\n", "rdma_config"},
    {"[ 9.000001] infiniband efa_0: Failed to process command ALLOC_PD (opcode 14) err -12\n",
     "rdma_config"},
    {"RuntimeError: two processes were given the same rank\n"
     "RuntimeError: rank 1 and another have the same rank\n",
     "launch_config"},
    {"gpu-8: bash: /opt/env/bin/python: No such file or directory\n", "launch_config"},
    {"Command 'ssh -o BatchMode=yes 10.1.2.3 hostname' returned non-zero exit status 255.\n",
     "launch_config"},
    {"[W1 socket.cpp:7] [c10d] The client socket has failed to connect to [box.internal]:29500 "
     "(system error: 10049 - no such address).\n",
     "net_interface"},
    {"kubelet Error: container create failed: level=error msg=\"container init was OOM-killed\"\n",
     "host_oom"},
};
INSTANTIATE_TEST_SUITE_P(Kinds, Ends, testing::ValuesIn(kKinds));

TEST(Ended, AndWentOnIsNoFailure) {
  const std::string on = "step 8 loss 2.1\nstep 9 loss 2.0\n";
  for (const char* line :
       {"Error: the tracker did not answer\n", "helper exited with code 1\n",
        "requests.exceptions.ConnectTimeout: timed out\n", "Process finished with exit code 3\n"}) {
    EXPECT_THAT(class_of(line + on), IsEmpty()) << line;
  }
}

TEST(Ended, InOrderIsNoFailure) {
  for (const char* lines :
       {"n1:5:9 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]\n",
        "Process finished with exit code 0\n", "exited with code 0\n", "0 replica(s) failed\n",
        "train-0   0/1   Completed   0   3m\n", "SystemExit: 0\n",
        "[W1 socket.cpp:7] [c10d] The client socket has failed to connect to [h]:29500 (errno: 97 "
        "- "
        "Address family not supported by protocol).\n"}) {
    EXPECT_THAT(class_of(lines), IsEmpty()) << lines;
  }
}

TEST(Ended, IsNeverAboveACause) {
  const Finding finding = first_of(
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1\n"
      "Error: failed to run torchrun train.py\n");
  EXPECT_EQ(finding.failure_class, "gpu_oom");
}

TEST(Raised, SaysWhichLineOfCode) {
  const Finding finding = first_of(
      "[rank3]: Traceback (most recent call last):\n"
      "[rank3]:   File \"/job/data.py\", line 9, in load\n"
      "[rank3]:     return decode(raw)\n"
      "[rank3]: image.error: no such colour\n");
  EXPECT_THAT(finding.message, HasSubstr("data.py:9 in load"));
  EXPECT_THAT(finding.subject.ranks, ElementsAre(3));
  ASSERT_FALSE(finding.evidence.empty());
  EXPECT_EQ(finding.evidence.front().line, 4u);
}

TEST(Raised, NamesWhomRayQuotes) {
  const Finding finding = first_of(
      "(Worker pid=77) AssertionError: no such thing\n"
      "(Driver pid=9) raised in its creation task, ray::Worker.__init__() (pid=77, ip=10.4.4.4)\n");
  EXPECT_THAT(finding.subject.nodes, ElementsAre("10.4.4.4"));
}

TEST(Raised, NamesTheFileThatTheProcessesMeetBy) {
  const Finding finding = first_of(
      "    pg = ProcessGroupGloo(store, rank, size)\n"
      "RuntimeError: open(/job/meet): Permission denied\n");
  EXPECT_EQ(finding.failure_class, "rendezvous_store");
  EXPECT_THAT(finding.subject.files, ElementsAre("/job/meet"));
}

TEST(Pods, OfATableAreNamed) {
  EXPECT_THAT(first_of("train-master-0      0/2     CrashLoopBackOff   8   2m\n").subject.pods,
              ElementsAre("train-master-0"));
  EXPECT_THAT(first_of("team-a    job-7f9c-zkx    0/1     OOMKilled\n").subject.pods,
              ElementsAre("job-7f9c-zkx"));
}

TEST(Suspects, AreTheOtherOfTwo) {
  const Finding finding = first_of(
      "[rank1]:[E ProcessGroupNCCL.cpp:1182] [Rank 1] Watchdog caught collective operation "
      "timeout: WorkNCCL(SeqNum=22, OpType=ALLGATHER, NumelIn=1, NumelOut=2, Timeout(ms)=300000) "
      "ran for 300189 milliseconds before timing out.\n");
  EXPECT_THAT(finding.subject.ranks, ElementsAre(0));
}

TEST(Suspects, AreNamedByTheAddressThatDoesNotAnswer) {
  EXPECT_THAT(first_of("[E socket.cpp:957] [c10d] The client socket has timed out after 60s while "
                       "trying to connect to (10.1.2.3, 29500).\n")
                  .subject.nodes,
              ElementsAre("10.1.2.3"));
}

TEST(Suspects, OfAnXidAreItsDevices) {
  EXPECT_THAT(
      first_of("[ 9.000001] NVRM: Xid (PCI:0000:01:00): 31, pid=7, name=python, MMU Fault\n")
          .subject.devices,
      Contains(HasSubstr("0000:01:00")));
}

}  // namespace
}  // namespace shanty
