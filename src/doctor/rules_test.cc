#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doctor/test_case.h"

namespace shanty {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(Rdma, TellsARefusedRequestFromALinkThatFailed) {
  const Finding refused = first_of(
      "node201:1:2 [0] transport/net_ib.cc:101 NCCL WARN NET/IB : mlx5_0:1 Got async event : local "
      "access violation work queue error\n"
      "node023:3:4 [0] transport/net_ib.cc:1909 NCCL WARN NET/IB : Got completion from peer "
      "10.1.3.201<33057> with status=9 opcode=0 len=0 vendor err 138 (Send)\n");
  EXPECT_EQ(refused.failure_class, "rdma_config");
  EXPECT_THAT(refused.subject.nodes, ElementsAre("node201"));
  const Finding queue = first_of(
      "node-0:1:2 [0] transport/net_ib.cc:154 NCCL WARN NET/IB : mlx5_1:1 async fatal event on QP "
      "(0x7309dc3bb338): invalid request local work queue error\n");
  EXPECT_EQ(queue.failure_class, "rdma_config");
  EXPECT_THAT(queue.subject.nodes, ElementsAre("node-0"));
  const Finding link = first_of(
      "node-0:1:2 [0] transport/net_ib.cc:93 NCCL WARN NET/IB : mlx5_1:1 Got async event : port "
      "error\n"
      "node-1:3:4 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer "
      "10.0.0.1<3305> with status=12 opcode=0 len=0 vendor err 129 (Send)\n");
  EXPECT_EQ(link.failure_class, "fabric_fault");
  EXPECT_THAT(link.subject.nodes, ElementsAre("node-0"));
}

TEST(Rdma, DoesNotSayThatItOnceWorkedWithoutASign) {
  const Finding alone = first_of(
      "w-1:1:2 [0] transport/net_ib.cc:839 NCCL WARN NET/IB : Got completion with error 12, opcode "
      "1, len 0, vendor err 129\n");
  EXPECT_EQ(alone.failure_class, "fabric_fault");
  EXPECT_LT(alone.confidence, 0.7);
  EXPECT_THAT(alone.message, HasSubstr("GID"));
  EXPECT_THAT(alone.message, Not(HasSubstr("in the middle of training")));
}

TEST(Store, ThatIsGoneIsNoProofOfACrash) {
  const Finding gone = first_of(
      "[rank4]:[W810 23:02:42.934129975 TCPStore.cpp:125] [c10d] recvValue failed on "
      "SocketImpl(fd=102, addr=[glm-node01]:50360, remote=[glm-node01]:40027): Failed to recv, got "
      "0 bytes. Connection was likely closed.\n");
  EXPECT_EQ(gone.code, "HANG199");
  EXPECT_THAT(gone.subject.nodes, ElementsAre("glm-node01"));
  EXPECT_EQ(
      first_of("[rank2]:[W625 23:35:35.303797152 TCPStore.cpp:125] [c10d] recvValue failed on "
               "SocketImpl(fd=6, addr=[::ffff:127.0.0.1]:37468, "
               "remote=[::ffff:127.0.0.1]:6006): failed to recv, got 0 bytes\n")
          .code,
      "HANG199");
  // With sockets of NCCL that a peer closed it died.
  EXPECT_EQ(
      first_of("n1:1:2 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by "
               "remote peer n2<41109>\n"
               "[rank4]:[W810 23:02:42.934129975 TCPStore.cpp:125] [c10d] recvValue failed on "
               "SocketImpl(fd=1, addr=[n1]:5, remote=[n2]:4): failed to recv, got 0 bytes\n")
          .code,
      "RUN101");
}

TEST(Stall, OfHorovodNamesWhoIsMissing) {
  const std::string stall =
      "[1,0]<stderr>:[2019-04-13 13:56:31.861697: W horovod/common/operations.cc:588] One or more "
      "tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are "
      "waiting for remainder of ranks for more than 60 seconds.\n"
      "[1,0]<stderr>:Stalled ops:HorovodBroadcast_dense_1_bias_0 [missing ranks: 1, 3]\n";
  const Finding finding = first_of(stall);
  EXPECT_EQ(finding.code, "HANG199");
  EXPECT_THAT(finding.subject.ranks, ElementsAre(1, 3));
  // It was only late.
  EXPECT_THAT(class_of(stall + "[1,0]<stdout>:step 1 loss 2.5\n"), IsEmpty());
}

TEST(End, OfWhichOnlyTheLauncherTellsIsNotPassedOver) {
  const Finding torchrun = first_of(
      "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
      "Root Cause (first observed failure):\n[0]:\n"
      "  time      : 2024-09-11_09:17:37\n  host      : 9018.idas\n"
      "  rank      : 3 (local_rank: 3)\n  exitcode  : 1 (pid: 886322)\n  error_file: <N/A>\n");
  EXPECT_EQ(torchrun.code, "HANG199");
  EXPECT_THAT(torchrun.subject.ranks, ElementsAre(3));
  EXPECT_THAT(torchrun.subject.nodes, ElementsAre("9018.idas"));
  const Finding mpirun = first_of("  Process name: [[29973,1],5]\n  Exit code:    1\n");
  EXPECT_EQ(mpirun.code, "HANG199");
  EXPECT_THAT(mpirun.subject.ranks, ElementsAre(5));
  const Finding ray = first_of(
      "(raylet) A worker died or was killed while executing a task. Worker IP address: 10.0.1.75 "
      "Worker port: 10230 Worker PID: 207258 Worker exit type: SYSTEM_ERROR Worker exit detail: "
      "Worker unexpectedly exits with a connection error code 2.\n");
  EXPECT_EQ(ray.code, "HANG199");
  EXPECT_THAT(ray.subject.nodes, ElementsAre("10.0.1.75"));
  // A victim of its launcher is none.
  EXPECT_THAT(class_of("[0]:\n  rank      : 3 (local_rank: 3)\n  exitcode  : -15 (pid: 9)\n"),
              IsEmpty());
}

TEST(End, BySignalIsReadFromAllLaunchers) {
  const Finding killed = first_of(
      "mpirun noticed that process rank 140 with PID 363 on node 10.87.102.19 exited on signal 9 "
      "(Killed).\n");
  EXPECT_EQ(killed.failure_class, "host_oom");
  EXPECT_THAT(killed.subject.ranks, ElementsAre(140));
  EXPECT_THAT(killed.subject.nodes, ElementsAre("10.87.102.19"));
  EXPECT_EQ(class_of("APPLICATION TERMINATED WITH THE EXIT STRING: Bus error (signal 7)\n"), "shm");
  EXPECT_EQ(class_of("run.sh: line 66: 777016 Killed                  python train.py\n"),
            "host_oom");
  EXPECT_EQ(first_of("salloc: error: Node failure on worker-1\n").failure_class, "rank_died_early");
  const Finding failed = first_of(
      "error: *** STEP 5.0 ON nid002888 CANCELLED AT 2026-04-29T23:36:37 DUE TO TASK FAILURE ***\n"
      "srun: error: nid002888: task 58: Exited with exit code 1\n");
  EXPECT_EQ(failed.code, "HANG199");
  EXPECT_THAT(failed.subject.nodes, ElementsAre("nid002888"));
}

TEST(Memory, ThatRaySawRunOutNamesTheNode) {
  const Finding raylet = first_of(
      "[2023-04-19 16:22:19,798 E 329 329] (raylet) node_manager.cc:3069: 13 Workers (tasks / "
      "actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node "
      "(ID: 2875, IP: 10.0.10.135) over the last time period.\n");
  EXPECT_EQ(raylet.failure_class, "host_oom");
  EXPECT_THAT(raylet.subject.nodes, ElementsAre("10.0.10.135"));
  EXPECT_THAT(class_of("(raylet) node_manager.cc:3069: 0 Workers (tasks / actors) killed due to "
                       "memory pressure (OOM), 2 Workers crashed due to other reasons\n"),
              IsEmpty());
}

TEST(Timeout, OfOneRankAloneBlamesNobody) {
  EXPECT_EQ(first_of("[rank1]:[E ProcessGroupNCCL.cpp:1414] [PG 0 Rank 1] Process group watchdog "
                     "thread terminated with exception: [Rank 1] Watchdog caught collective "
                     "operation timeout: WorkNCCL(SeqNum=6075, OpType=_ALLGATHER_BASE, "
                     "NumelIn=1366, NumelOut=4098, Timeout(ms)=1800000) ran for 2954391 "
                     "milliseconds before timing out.\n")
                .code,
            "HANG199");
  EXPECT_EQ(
      first_of("[rank7]:[E1129 11:56:57.642513817 ProcessGroupNCCL.cpp:1834] [PG ID 0 PG GUID "
               "0(default_pg) Rank 7] Timeout at NCCL work: 28956, last enqueued NCCL work: "
               "28956, last completed NCCL work: 28955.\n")
          .code,
      "HANG199");
}

TEST(Numerics, NameTheRankThatFoundThem) {
  const Finding finding = first_of(
      "AssertionError: Rank 3: found NaN in local grad norm in backwards pass. Device: 3, node: "
      "set-zw04-kubernetes-pc133.mt\n");
  EXPECT_EQ(finding.failure_class, "numerics");
  EXPECT_THAT(finding.subject.ranks, ElementsAre(3));
  EXPECT_THAT(finding.subject.nodes, ElementsAre("set-zw04-kubernetes-pc133.mt"));
  EXPECT_THAT(finding.message, HasSubstr("gradients"));
}

TEST(Port, IsTheOneThatWasBound) {
  EXPECT_THAT(first_of("g:140:140 [0] include/socket.h:333 NCCL WARN Call to bind failed : Address "
                       "already in use\n")
                  .message,
              Not(HasSubstr("333")));
  EXPECT_THAT(first_of("RuntimeError: The server socket has failed to listen on any local network "
                       "address.\nport: 29500\nuseIpv6: 0\ncode: -98\nname: EADDRINUSE\n")
                  .message,
              HasSubstr("29500"));
  EXPECT_EQ(class_of("RuntimeError: Only one usage of each socket address (protocol/network "
                     "address/port) is normally permitted.\n"),
            "port_in_use");
  EXPECT_THAT(class_of("port: 29500\nstep 1 loss 2.0\n"), IsEmpty());
}

TEST(Names, AreTakenFromWhatIsThere) {
  EXPECT_THAT(first_of("ValueError: host not found: Name or service not known\n").message,
              Not(HasSubstr("\"not\"")));
  const Finding card = first_of(
      "[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0\n"
      "               NVRM: (PCI ID: 10de:26b5) installed in this system has\n"
      "               NVRM: fallen off the bus and is not responding to commands.\n");
  EXPECT_THAT(card.subject.devices, ElementsAre("0000:b3:00.0"));
  const Finding oom = first_of(
      "OutOfMemoryError: CUDA out of memory. Tried to allocate 52.00 MiB. GPU 0 has a total "
      "capacty of 31.74 GiB of which 39.62 MiB is free. Process 101553 has 1.19 GiB memory in use. "
      "Process 101552 has 1.19 GiB memory in use.\n");
  EXPECT_THAT(oom.message, HasSubstr("GPU 0 is full"));
}

TEST(Gloo, ThatListensOnTheLoopbackOrConnectsNobody) {
  EXPECT_EQ(class_of("  what():  [/home/x/gloo/transport/tcp/pair.cc:761] connect "
                     "[127.0.1.1]:60817: Connection refused\n"),
            "net_interface");
  const Finding mesh = first_of(
      "RuntimeError: Gloo connectFullMesh failed with "
      "[../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error\n");
  EXPECT_EQ(mesh.code, "HANG199");
  EXPECT_EQ(mesh.failure_class, "net_interface");
}

TEST(Gloo, ThatWaitsForARankTheOthersDoNotExpectWasToldALargerWorld) {
  const std::string waits =
      "[rank1]: torch.distributed.DistStoreError: wait timeout after 6000ms, keys: "
      "/default_pg/0//cpu//0/2\n";
  const std::string gloo =
      "[rank0]: RuntimeError: "
      "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:545] ";
  for (const std::string sees : {"Read error [127.0.0.1]:1443: Connection reset by peer.\n",
                                 "Connection closed by peer [127.0.0.1]:1443\n"}) {
    const Finding found = first_of(waits + gloo + sees);
    EXPECT_EQ(found.failure_class, "launch_config") << sees;
    EXPECT_THAT(found.subject.ranks, ElementsAre(1)) << sees;
  }
}

TEST(Pods, AreNamedByTheirEvents) {
  const Finding start = first_of(
      "Events:\n"
      "  Normal   Scheduled               24m   default-scheduler  Successfully assigned "
      "train/worker-3 to ip-172-20-45-35.internal\n"
      "  Warning  FailedCreatePodSandBox  22m   kubelet            Failed to create pod sandbox: "
      "no "
      "runtime for \"nvidia\" is configured\n");
  EXPECT_EQ(start.failure_class, "k8s_pod_start");
  EXPECT_THAT(start.subject.pods, ElementsAre("worker-3"));
  EXPECT_THAT(start.message, Not(HasSubstr(":  ")));
  EXPECT_THAT(class_of("  Normal  Scheduled  24m  default-scheduler  Successfully assigned "
                       "train/worker-3 to n1\n"),
              IsEmpty());
  const Finding pending = first_of(
      "39h   Warning   FailedScheduling   pod/worker-7   0/1 nodes are available: 1 node(s) had "
      "untolerated taint {a: }.\n");
  EXPECT_THAT(pending.subject.pods, ElementsAre("worker-7"));
  const Finding evicted = first_of(
      "rook-tools-5d85d6fc7-xwsv5   storage   Evicted   oct-03-03   The node was low on resource: "
      "ephemeral-storage. Container a was using 1964Ki, which exceeds its request of 0.\n");
  EXPECT_THAT(evicted.subject.pods, ElementsAre("rook-tools-5d85d6fc7-xwsv5"));
  EXPECT_THAT(evicted.subject.nodes, ElementsAre("oct-03-03"));
}

TEST(Gang, IsNamedByItsObjectOrItsOperator) {
  EXPECT_THAT(first_of("apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\n"
                       "metadata: {name: mxnet-job}\nstatus:\n  conditions:\n"
                       "  - message: '3/0 tasks in gang unschedulable: job is not ready, 3 "
                       "minAvailable.'\n    status: \"True\"\n    type: Unschedulable\n")
                  .message,
              HasSubstr("mxnet-job"));
  const Finding missing = first_of(
      "time=\"2023-06-13T03:24:07Z\" level=warning msg=\"Sync PodGroup kubeflow/dist-mnist: unable "
      "to create PodGroup: the server could not find the requested resource\"\n");
  EXPECT_EQ(missing.failure_class, "k8s_scheduling");
  EXPECT_THAT(missing.message, HasSubstr("dist-mnist"));
}

TEST(Resume, ThatCountsTwoWaysIsTold) {
  EXPECT_EQ(first_of("Resuming from step 134000\nResuming training from step 33500\n").code,
            "RES104");
  EXPECT_THAT(class_of("Resuming from step 134000\nResuming training from step 134000\n"),
              IsEmpty());
  EXPECT_THAT(class_of("Resuming training from epoch 3\nResuming training from step 33500\n"),
              IsEmpty());
  EXPECT_THAT(class_of("Resuming from step 1000\nResuming training at step 1001\n"), IsEmpty());
  EXPECT_THAT(class_of("Resuming from step 100\nstep 101 loss 2.0\nResuming from step 200\n"),
              IsEmpty());
}

TEST(Checkpoint, OfOtherShapesIsTold) {
  const std::string frames =
      "Traceback (most recent call last):\n"
      "  File \"/env/lib/python3.10/site-packages/torch/optim/adamw.py\", line 359, in "
      "_single_tensor_adamw\n"
      "    exp_avg.mul_(beta1).add_(grad, alpha=1 - beta1)\n";
  const std::string clash =
      "RuntimeError: The size of tensor a (56124554) must match the size of tensor b (14031139) at "
      "non-singleton dimension 0\n";
  EXPECT_EQ(class_of(frames + clash), "checkpoint");
  EXPECT_EQ(
      class_of("Traceback (most recent call last):\n  File \"train.py\", line 3, in f\n" + clash),
      "rank_died_early");
  EXPECT_EQ(class_of("(Actor pid=9671) ValueError: Size mismatch between saved torch.Size([257152, "
                     "2048]) and current: torch.Size([131661824]) for model.embed.weight\n"),
            "checkpoint");
}

TEST(Frozen, IsNoWatchdogThatWaitsForTheAbortAfterATimeout) {
  const auto log = [](const char* stuck_at) {
    return "[rank2]:[E626 05:06:30.929096625 ProcessGroupNCCL.cpp:632] [Rank 2] Watchdog caught "
           "collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, "
           "NumelOut=1, Timeout(ms)=1800000) ran for 1800065 milliseconds before timing out.\n"
           "[rank7]:[E626 " +
           std::string(stuck_at) +
           " ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg) Rank 7] ProcessGroupNCCL's "
           "watchdog got stuck for 480 seconds without making progress in monitoring enqueued "
           "collectives.\n";
  };
  EXPECT_NE(class_of(log("05:14:36.393067540")), "process_frozen");
  EXPECT_EQ(class_of(log("05:06:40.393067540")), "process_frozen");
}

TEST(CannotTell, WhereOnlyTheEndOfAReportIsHere) {
  EXPECT_EQ(first_of("[E ProcessGroupNCCL.cpp:537] Some NCCL operations have failed or timed out. "
                     "Due to the asynchronous nature of CUDA kernels, subsequent GPU operations "
                     "might run on corrupted/incomplete data.\n")
                .code,
            "HANG199");
  EXPECT_EQ(
      first_of("The actor is dead because its owner has died. Owner Id: 01 Owner Ip address: "
               "172.21.160.9 Owner worker exit type: SYSTEM_ERROR Worker exit detail: Owner's "
               "node has crashed.\n")
          .code,
      "HANG199");
  EXPECT_EQ(first_of("Exception raised from checkTimeout at ../torch/csrc/distributed/c10d/"
                     "ProcessGroupNCCL.cpp:618 (most recent call first):\n")
                .code,
            "HANG199");
  EXPECT_EQ(first_of("RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO "
                     "for details)\n")
                .code,
            "HANG199");
  EXPECT_EQ(first_of("[2021-11-21 08:32:07,148] [INFO] [launch.py:131:sigkill_handler] Killing "
                     "subprocess 250621\n")
                .code,
            "HANG199");
  const Finding step = first_of(
      "[2026-04-29T23:36:37.809] error: *** STEP 52222788.0 ON nid002888 CANCELLED AT "
      "2026-04-29T23:36:37 DUE TO TASK FAILURE ***\nsrun: error: nid002888: tasks 0-57: "
      "Terminated\n");
  EXPECT_EQ(step.code, "HANG199");
  EXPECT_THAT(step.subject.nodes, ElementsAre("nid002888"));
  EXPECT_THAT(class_of("Owner worker exit type: INTENDED_USER_EXIT Worker exit detail: done.\n"),
              IsEmpty());
}

TEST(Slurm, SaysWhichNodeDidNotStart) {
  const Finding finding =
      first_of("srun: error: Task launch for 36.0 failed on node cn131: Job credential expired\n");
  EXPECT_EQ(finding.code, "RUN101");
  EXPECT_THAT(finding.subject.nodes, ElementsAre("cn131"));
  EXPECT_THAT(finding.message, HasSubstr("Job credential expired"));
}

TEST(Resume, IsReadFromNumbersThatAreQuoted) {
  const auto stretch = [](double loss, double epoch) {
    std::string out;
    for (int i = 0; i < 14; ++i) {
      out += fmt::format("{{'loss': '{:.4f}', 'learning_rate': '3e-07', 'epoch': '{:.4f}'}}\n",
                         loss + (i % 3) * 0.01, epoch + i * 0.002);
    }
    return out;
  };
  const std::string again = "Resuming training from checkpoint out/checkpoint-3000\n";
  EXPECT_EQ(class_of(stretch(0.91, 0.66) + again + stretch(2.41, 0.69)), "resume_state");
  EXPECT_THAT(class_of(stretch(0.91, 0.66) + again + stretch(0.91, 0.69)), IsEmpty());
}

TEST(Launcher, NodesAreReadFromItsNodeIds) {
  LogScanner scanner;
  const auto source = memory_source(
      "WARNING:torch.distributed.elastic.rendezvous.dynamic_rendezvous:The node "
      "'gpu-box-7_28389_0' has failed to send a keep-alive heartbeat to the rendezvous 'x' due to "
      "an error of type RendezvousConnectionError.\n"
      "INFO:torch.distributed.elastic.rendezvous.dynamic_rendezvous:The node 'gpu-box-8_17_0' has "
      "joined round 1 of the rendezvous 'x' as rank 1 in a world of size 2.\n");
  scanner.scan(*source, {.name = "a.log", .around_unix_ns = 1, .time_at = nullptr});
  const LogBook book = scanner.finish();
  ASSERT_EQ(book.records.size(), 2u);
  EXPECT_EQ(book.records[0].node, "gpu-box-7");
  EXPECT_EQ(book.records[1].node, "gpu-box-8");
}

TEST(Wording, OfOthersIsUnderstood) {
  const Finding mismatch = first_of(
      "init.cc:1247 NCCL WARN Mismatched collective detected, please check your collective calls "
      "at "
      "and around rank 39. You can use NCCL_DEBUG=INFO\n");
  EXPECT_EQ(mismatch.failure_class, "collective_desync");
  EXPECT_THAT(mismatch.subject.ranks, ElementsAre(39));
  EXPECT_EQ(class_of("ERROR: Unexpected BUS error encountered in DataLoader worker. This might be "
                     "caused by insufficient shared memory (shm)\n"),
            "shm");
}

constexpr char kRasTable[] =
    "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
    "    #  in group  per comm  per node  per comm  in group\n"
    "    0         1         4       7-8        32        32   RUNNING  INCOMPLETE\n\n"
    "Errors\n======\n\n";

TEST(Ras, NamesTheProcessThatDied) {
  const Finding dead =
      first_of(std::string(kRasTable) +
               "DEAD\n"
               "  1 job process is considered dead (unreachable via the RAS network)\n"
               "  Process 7701 on node 10.3.0.13 managing GPU 5\n\n"
               "#0-0 (0f2264af53edbe98) INCOMPLETE\n"
               "  Missing communicator data from 1 rank\n"
               "  Rank 21 -- GPU 5 managed by process 7701 on node 10.3.0.13\n");
  EXPECT_EQ(dead.failure_class, "rank_died_early");
  EXPECT_THAT(dead.subject.ranks, ElementsAre(21));
  EXPECT_THAT(dead.subject.nodes, ElementsAre("10.3.0.13"));
}

TEST(Ras, TellsOneThatDoesNotAnswerFromOneThatIsDead) {
  const Finding silent = first_of(std::string(kRasTable) +
                                  "INCOMPLETE\n"
                                  "  Missing communicator data from 1 job process\n"
                                  "  Process 7701 on node 10.3.0.13 managing GPU 5\n\n"
                                  "#0-0 (0f2264af53edbe98) INCOMPLETE\n"
                                  "  Missing communicator data from 1 rank\n"
                                  "  The missing rank: 21\n");
  EXPECT_EQ(silent.failure_class, "process_frozen");
  EXPECT_THAT(silent.subject.ranks, ElementsAre(21));
  EXPECT_THAT(silent.subject.nodes, ElementsAre("10.3.0.13"));
}

TEST(Ras, CountsOfOneMomentAreNoFaultAndThoseThatStandStillAre) {
  const std::string report =
      "#0-0 (27a079b828ff1a75) MISMATCH\n"
      "  Communicator ranks have different AllReduce operation counts\n"
      "  30 ranks have launched up to operation 6650\n"
      "  2 ranks have launched up to operation 6649\n"
      "  Rank 4 -- GPU 4 managed by process 48 on node 10.3.0.10\n"
      "  Rank 6 -- GPU 6 managed by process 50 on node 10.3.0.10\n\n";
  EXPECT_EQ(first_of(report).code, "");
  const Finding twice = first_of(report + report);
  EXPECT_EQ(twice.code, "HANG101");
  EXPECT_THAT(twice.subject.ranks, ElementsAre(4, 6));
  const std::string alone =
      "#1-0 (27a079b828ff1a75) MISMATCH\n"
      "  Communicator ranks have different Broadcast operation counts\n"
      "  31 ranks have launched up to operation 3\n"
      "  Rank 9 has not launched any operations -- GPU 1 managed by process 48 on node n1\n\n";
  EXPECT_THAT(first_of(alone + alone).subject.ranks, ElementsAre(9));
  // Two that are ahead of all others: it does not list who is behind.
  const std::string ahead =
      "#0-0 (27a079b828ff1a75) MISMATCH\n"
      "  Communicator ranks have different AllGather operation counts\n"
      "  30 ranks have launched up to operation 640\n"
      "  Rank 4 has launched up to operation 641 -- GPU 4 managed by process 48 on node n1\n\n";
  EXPECT_THAT(first_of(ahead + ahead).subject.ranks, IsEmpty());
}

TEST(Ras, NamesRanksThatReportAnError) {
  const Finding failed = first_of(
      "#0-0 (27a079b828ff1a75) ERROR\n"
      "  Asynchronous errors on 3 ranks\n"
      "  2 ranks reported Remote process error\n"
      "  Rank 0 -- GPU 0 managed by process 40 on node n0\n"
      "  Rank 1 -- GPU 1 managed by process 41 on node n0\n"
      "  Rank 9 reported Unhandled CUDA error -- GPU 1 managed by process 48 on node n1\n");
  EXPECT_EQ(failed.code, "HANG199");
  EXPECT_THAT(failed.subject.ranks, ElementsAre(9));
}

TEST(Ras, IsReadAsJsonToo) {
  const auto report = [](const std::string& rank_of_two, const std::string& missing) {
    return "{\"nccl_version\": \"2.28.9\", \"communicators_count\": 1, \"communicators\": [{"
           "\"hash\": \"0x51\", \"size\": 2, \"missing_ranks_count\": 1, \"ranks\": [{\"rank\": 0, "
           "\"host\": \"n0\", \"pid\": 8, \"status\": {\"init_state\": 0, \"async_error\": 0}, "
           "\"collective_counts\": {\"AllReduce\": 12}}" +
           rank_of_two + "], \"missing_ranks\": [" + missing + "]}]}";
  };
  const auto missing = [](const std::string& dead) {
    return "{\"rank\": 1, \"host\": \"n1\", \"pid\": 9, \"status\": {\"unresponsive\": true, "
           "\"considered_dead\": " +
           dead + "}}";
  };
  const Finding dead = first_of(report("", missing("true")));
  EXPECT_EQ(dead.failure_class, "rank_died_early");
  EXPECT_THAT(dead.subject.ranks, ElementsAre(1));
  EXPECT_THAT(dead.subject.nodes, ElementsAre("n1"));
  EXPECT_EQ(first_of(report("", missing("false"))).failure_class, "process_frozen");
  // Of one moment: no fault.
  EXPECT_EQ(
      first_of(report(", {\"rank\": 1, \"collective_counts\": {\"AllReduce\": 11}}", "")).code, "");
  EXPECT_EQ(first_of(report(", {\"rank\": 1, \"status\": {\"async_error\": 1}}", "")).code,
            "HANG199");
}

TEST(Stall, ListsByRankOrByThoseThatCameAreRead) {
  const std::string warning =
      "W horovod/common/stall_inspector.cc:105] One or more tensors were submitted to be reduced "
      "by subset of ranks and are waiting for remainder of ranks for more than 60 seconds. ";
  const Finding listed = first_of("[1,0]<stderr>:[2020-12-30 16:35:15.181832: " + warning +
                                  "\n[1,0]<stderr>:Missing ranks:\n"
                                  "[1,0]<stderr>:2: [allreduce.fc.weight, allreduce.fc.bias ...]\n"
                                  "[1,0]<stderr>:5: [allreduce.fc.weight]\n");
  EXPECT_EQ(listed.code, "HANG199");
  EXPECT_THAT(listed.subject.ranks, ElementsAre(2, 5));
  EXPECT_THAT(first_of("[2020-12-30 16:35:15.181832: " + warning +
                       "\nStalled ranks:\n3: [cond_1/Distributed_Allreduce/HorovodAllreduce_0]\n")
                  .subject.ranks,
              ElementsAre(3));
  const Finding late = first_of(warning +
                                "Stalled ops: allreduce.conv1.weight [ready ranks: 5, 1, 4, 2, 3], "
                                "allreduce.bn1.weight [ready ranks: 5, 1, 4, 2, 3]\n");
  EXPECT_EQ(late.code, "HANG199");
  EXPECT_THAT(late.subject.ranks, ElementsAre(0));
  const Finding crossed =
      first_of(warning +
               "Stalled ops: loss [ready ranks: 3], conv1 [ready ranks: 2, 0, 1], conv2 [ready "
               "ranks: 2, 0, 1]\n");
  EXPECT_EQ(crossed.failure_class, "collective_desync");
  EXPECT_THAT(crossed.subject.ranks, ElementsAre(3));
}

TEST(Store, ThatClosesBeforeThereAreRanksWasTakenByAnother) {
  const Finding empty = first_of(
      "[W822 03:54:49.636977195 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=15, "
      "addr=[job-node-0-1.job.ns.svc]:60560, remote=[job-node-0-0.job.ns.svc]:29500): failed to "
      "recv, got 0 bytes\n");
  EXPECT_EQ(empty.failure_class, "net_blocked");
  EXPECT_THAT(empty.message, HasSubstr("job-node-0-0.job.ns.svc"));
  EXPECT_EQ(class_of("[W426 16:56:01.831041000 TCPStore.cpp:347] [c10d] TCP client failed to "
                     "connect/validate to host 100.64.0.1:59782 - retrying (try=6, "
                     "timeout=1800000ms, delay=5241ms): Connection reset by peer\n"),
            "net_blocked");
  // An agent whose workers had run lost it when the others left.
  EXPECT_NE(class_of("[W822 03:54:49.636977195 TCPStore.cpp:125] [c10d] sendBytes failed on "
                     "SocketImpl(fd=3, addr=[n1]:5, remote=[n0]:29500): Broken pipe\n"
                     "W0822 03:54:50.000000 77 torch/distributed/elastic/multiprocessing/"
                     "api.py:900] Sending process 101 closing signal SIGTERM\n"),
            "net_blocked");
}

TEST(Store, OfWhichOneProcessSpeaksIsNotSurelyUnhosted) {
  const std::string one =
      "[E108 20:04:34.467642512 socket.cpp:957] [c10d] The client socket has timed out after 900s "
      "while trying to connect to (10.0.0.1, 29500).\n";
  EXPECT_EQ(first_of(one).failure_class, "rendezvous_store");
  EXPECT_LT(first_of(one).confidence, 0.7);
  const Finding two = first_of("node-0: " + one + "node-1: " + one);
  EXPECT_GT(two.confidence, 0.8);
}

TEST(Dns, ABracketedAddressIsNoName) {
  const std::string line =
      "[W715 20:00:39.842901446 socket.cpp:752] [c10d] The IPv6 network addresses of "
      "([2605:340:cd51::1540], 59699) cannot be retrieved (gai error: -2 - Name or service not "
      "known).\n";
  EXPECT_EQ(class_of(line), "dns");
  EXPECT_THAT(class_of("[W715 20:00:39.842901446 socket.cpp:752] [c10d] The IPv6 network addresses "
                       "of (localhost, 59699) cannot be retrieved (gai error: -2 - Name or service "
                       "not known).\n"),
              IsEmpty());
}

TEST(Barrier, RanksThatReachedItAreNotTheLateOne) {
  const Finding finding = first_of(
      "[rank0]: torch.distributed.DistStoreError: wait timeout after 600000ms, keys: "
      "/default_pg/0//7//cuda//pg_wrapper:7/0/1\n"
      "[rank3]:[E221 08:45:07.886838878 ProcessGroupGloo.cpp:143] Rank 3 successfully reached "
      "monitoredBarrier, but received errors while waiting for send/recv from rank 0. Please check "
      "rank 0 logs for faulty rank.\n"
      "[rank2]:[E221 08:45:07.887390966 ProcessGroupGloo.cpp:143] Rank 2 successfully reached "
      "monitoredBarrier, but received errors while waiting for send/recv from rank 0. Please check "
      "rank 0 logs for faulty rank.\n");
  EXPECT_EQ(finding.code, "HANG199");
  EXPECT_THAT(finding.subject.ranks, ElementsAre(1));
}

TEST(OldWords, OfNcclAndTheStoreAreKnown) {
  const Finding loopback = first_of(
      "a79e04561:4880:5140 [1] NCCL INFO NET : Using interface lo:127.0.0.1<0>\n"
      "a79e04561:4880:5140 [1] NCCL INFO NET : Using interface eth0:3.5.6.12<0>\n"
      "e53b7da88:2494:2756 [1] NCCL INFO NET : Using interface lo:127.0.0.1<0>\n"
      "a79e04561:4880:5140 [1] include/socket.h:361 NCCL WARN Call to connect timeout : Connection "
      "refused\n");
  EXPECT_EQ(loopback.failure_class, "net_interface");
  EXPECT_THAT(loopback.subject.devices, ElementsAre("lo"));
  EXPECT_EQ(class_of("RuntimeError: connect() timed out.\n"), "rendezvous_store");
  EXPECT_EQ(first_of("RuntimeError: Runtime error: unhandled system error\n").code, "HANG199");
}

TEST(Rocm, AssertionsAndTheIommuAreKnown) {
  EXPECT_EQ(class_of("/aten/src/ATen/native/hip/Indexing.hip:1292: indexSelectLargeIndex: "
                     "Device-side assertion `srcIndex < srcSelectDimSize' failed.\n"),
            "app_cuda_fault");
  const std::string missing =
      "box:402:402 [0] init.cc:179 NCCL WARN Missing \"iommu=pt\" from kernel command line which "
      "can lead to system instablity or hang!\n";
  EXPECT_EQ(class_of(missing), "p2p_acs");
  EXPECT_THAT(class_of(missing + "box:402:460 [0] NCCL INFO Connected all rings\n"), IsEmpty());
}

TEST(Describe, IsReadBelowTheCommandThatPrintedIt) {
  const Finding finding = first_of(
      "$ kubectl describe pod infer-5b6c7f889c-f54c6\nName:             infer-5b6c7f889c-f54c6\n"
      "Namespace:        default\nNode:             <none>\nStatus:           Pending\n"
      "Events:\n  Warning  FailedScheduling  63s   default-scheduler  0/1 nodes are available: 1 "
      "Insufficient nvidia.com/gpu.\n");
  EXPECT_EQ(finding.failure_class, "k8s_scheduling");
  EXPECT_THAT(finding.subject.pods, ElementsAre("infer-5b6c7f889c-f54c6"));
}

TEST(Stall, RanksThatHadFinishedAreNotLate) {
  const std::string stalled =
      "WARNING: One or more tensors were submitted to be reduced by subset of ranks and are "
      "waiting "
      "for remainder of ranks for more than 60 seconds.\nStalled ops:\n"
      "grads/Allgather_0 [missing ranks: 1, 4]\n";
  const std::string end = "INFO:tensorflow:Loss for final step: 3.25.\n";
  const Finding finding = first_of(end + end + stalled);
  EXPECT_EQ(finding.code, "HANG101");
  EXPECT_THAT(finding.subject.ranks, ElementsAre(1, 4));
  EXPECT_EQ(first_of(end + stalled).code, "HANG199");
  EXPECT_EQ(first_of("Epoch 1 finished\nEpoch 2 finished\n" + stalled).code, "HANG199");
}

TEST(Launchers, SayInTheirOwnWordsWhichRankEnded) {
  for (const std::string line :
       {"ERROR:composer.cli.launcher:Rank 3 crashed with exit code -11.\n",
        "ERROR:composer.cli.launcher:Global rank 3 (PID 208865) exited with code -11\n",
        "[rank: 3] Child process with PID 208 terminated with code 1. Forcefully terminating all "
        "other processes to avoid zombies\n",
        "Process 3 exit with status code 1.\n"}) {
    const Finding finding = first_of(line);
    EXPECT_EQ(finding.code, "RUN102") << line;
    EXPECT_THAT(finding.subject.ranks, ElementsAre(3)) << line;
  }
  EXPECT_EQ(class_of("ERROR:composer.cli.launcher:Rank 2 crashed with exit code -7.\n"), "shm");
}

TEST(Launchers, AWorkerThatIsKilledIsNamedByTheSummaryOrItsLocalRank) {
  const std::string failed =
      "E0325 20:57:27.620000 2606 torch/distributed/elastic/multiprocessing/api.py:869] failed "
      "(exitcode: -9) local_rank: 1 (pid: 2630) of binary: /usr/bin/python\n";
  EXPECT_EQ(first_of(failed).failure_class, "host_oom");
  EXPECT_THAT(first_of(failed).subject.ranks, ElementsAre(1));
  EXPECT_THAT(
      first_of(failed + "[0]:\n  rank      : 8 (local_rank: 0)\n  exitcode  : -15 (pid: 1)\n"
                        "[1]:\n  rank      : 9 (local_rank: 1)\n  exitcode  : -9 (pid: "
                        "2630)\n")
          .subject.ranks,
      Contains(9));
  const Finding flat = first_of(
      "[2]: time : 2024-08-23_22:22:58 host : algo-2 rank : 2 (local_rank: 2) exitcode : -6 (pid: "
      "189) error_file: <N/A> traceback : Signal 6 (SIGABRT) received by PID 189\n");
  EXPECT_THAT(flat.subject.nodes, ElementsAre("algo-2"));
}

TEST(Timeouts, OfAFewRanksAreAnExcerpt) {
  std::string some;
  for (const int rank : {0, 3, 4}) {
    some += fmt::format(
        "[rank{0}]:[E1206 18:44:12.715298746 ProcessGroupNCCL.cpp:607] [Rank {0}] Watchdog caught "
        "collective operation timeout: WorkNCCL(SeqNum=7753, OpType=ALLREDUCE, NumelIn=64, "
        "NumelOut=64, Timeout(ms)=600000) ran for 600061 milliseconds before timing out.\n",
        rank);
  }
  EXPECT_EQ(first_of(some).code, "HANG199");
  EXPECT_THAT(first_of(some).subject.ranks, IsEmpty());
}

TEST(Describe, APodThatEndedWithTheCodeOfSigkillMayHaveLackedMemory) {
  const Finding finding = first_of(
      "$ kubectl describe pod worker-5b\nName:               worker-5b\nNamespace:          "
      "default\n"
      "Node:               box/10.0.2.15\nContainers:\n  worker:\n    Last State:     Terminated\n"
      "      Reason:       Error\n      Exit Code:    137\n");
  EXPECT_EQ(finding.failure_class, "host_oom");
  EXPECT_LT(finding.confidence, 0.7);
  EXPECT_THAT(finding.subject.pods, ElementsAre("worker-5b"));
}

TEST(Driver, OfAnotherVersionThanItsLibrariesIsNotTooOld) {
  const Finding finding = first_of(
      "nvidia-container-cli: initialization error: nvml error: driver/library version mismatch: "
      "unknown\n");
  EXPECT_EQ(finding.failure_class, "driver_image");
  EXPECT_THAT(finding.message, HasSubstr("another version"));
}

TEST(Gpu, ThatTheDriverCannotStartIsNamed) {
  const Finding finding =
      first_of("[   21.09] NVRM: GPU 0000:0a:00.0: RmInitAdapter failed! (0x22:0x56:894)\n");
  EXPECT_EQ(finding.failure_class, "gpu_hw_fabricmgr");
  EXPECT_THAT(finding.subject.devices, ElementsAre(HasSubstr("0a:00.0")));
}

TEST(Scheduling, VolcanosWordsAreKnown) {
  EXPECT_EQ(class_of("  Warning  FailedScheduling  0s    volcano  0/1 nodes are unavailable: 1 "
                     "Insufficient cpu.\n"),
            "k8s_scheduling");
}

TEST(FirstBarrier, TellsHowManyCame) {
  const auto waits = [](int rank, int joined) {
    return fmt::format(
        "Waiting in store based barrier to initialize process group for rank: {}, key: "
        "store_based_barrier_key:1 (world_size=4, worker_count={}, timeout=0:30:00)\n",
        rank, joined);
  };
  const std::string many = waits(0, 8) + waits(0, 8);
  EXPECT_EQ(class_of(many), "launch_config");
  const std::string few = waits(0, 3) + waits(1, 3) + waits(3, 3) + waits(0, 3);
  const Finding finding = first_of(few);
  EXPECT_EQ(finding.code, "HANG199");
  EXPECT_THAT(finding.subject.ranks, ElementsAre(2));
  EXPECT_THAT(class_of(waits(0, 3)), IsEmpty());
  EXPECT_THAT(class_of(few + "Rank 0: Completed store-based barrier for "
                             "key:store_based_barrier_key:1 with 4 nodes.\n"),
              IsEmpty());
  EXPECT_EQ(class_of("RuntimeError: Timed out initializing process group in store based barrier on "
                     "rank: 0, for key: store_based_barrier_key:1 (world_size=8, worker_count=16, "
                     "timeout=0:30:00)\n"),
            "launch_config");
}

TEST(Launchers, OldAndStructuredWordsOfTorchrunAreKnown) {
  EXPECT_THAT(first_of("Child process 17057 (local_rank 2) FAILED (exitcode 1)\n").subject.ranks,
              ElementsAre(2));
  const Finding structured = first_of(
      "{\"name\": \"torchelastic.worker.status.FAILED\", \"source\": \"WORKER\", \"metadata\": "
      "{\"run_id\": \"none\", \"global_rank\": 3, \"group_rank\": 0, \"role\": \"default\", "
      "\"hostname\": \"box\", \"state\": \"FAILED\"}}\n");
  EXPECT_EQ(structured.code, "HANG199");
  EXPECT_THAT(structured.subject.ranks, ElementsAre(3));
  EXPECT_THAT(structured.subject.nodes, ElementsAre("box"));
}

TEST(P2p, ChannelsWithoutRankZeroAreOfOneNodeAmongSeveral) {
  const auto channel = [](int a, int b) {
    return fmt::format(
        "box:22740:23479 [0] NCCL INFO Channel 01 : {}[51000] -> {}[56000] via "
        "P2P/IPC/read\n",
        a, b);
  };
  EXPECT_EQ(class_of(channel(0, 1) + channel(1, 0)), "p2p_acs");
  EXPECT_THAT(class_of(channel(8, 9) + channel(9, 8)), IsEmpty());
}

TEST(Ucx, TellsOfLockedMemory) {
  EXPECT_EQ(class_of("ib_log.c:246  UCX  ERROR mlx5_0: ibv_create_cq() failed: Cannot allocate "
                     "memory. Please set max locked memory (ulimit -l) to 'unlimited' (current: 64 "
                     "kbytes)\n"),
            "rdma_config");
}

}  // namespace
}  // namespace shanty
