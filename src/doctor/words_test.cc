// Lines of programs, drivers and launchers that name the same causes in other words.

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

class Words : public testing::TestWithParam<Told> {};

TEST_P(Words, NameTheirCause) { EXPECT_EQ(class_of(GetParam().lines), GetParam().failure_class); }

constexpr Told kGpus[] = {
    {"kernel: NVRM: Xid (PCI:0000:1b:00): 45, pid=77, name=python3, Ch 00000003 caused by previous "
     "Xid 145\n",
     "gpu_hw_fabricmgr"},
    {"W1 nvidia-device-plugin XidCriticalError: Xid=94 on Device=GPU-1; ignoring\n",
     "gpu_hw_fabricmgr"},
    {"[ 12.000001] nvidia-nvswitch2: SXid (PCI:0000:c4:00.0): 20034, Fatal, Link 12 LTSSM Fault "
     "Up\n",
     "gpu_hw_fabricmgr"},
    {"[ 80.000001] amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!\n", "gpu_hw_fabricmgr"},
    {"Memory access fault by GPU node-3 (Agent handle: 0x1) on address 0x7000. Reason: Unknown.\n",
     "app_cuda_fault"},
    {"RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling "
     "`cublasGemmEx(handle)`\n",
     "app_cuda_fault"},
    {"RuntimeError: CUDA error: too many resources requested for launch\n", "app_cuda_fault"},
    {"RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB\n", "gpu_oom"},
    {"RuntimeError: CUDA error: peer access is not supported between these two devices\n",
     "p2p_acs"},
    {"box:9:12 [1] transport/p2p.cc:310 NCCL WARN Cuda failure 'API call is not supported'\n",
     "p2p_acs"},
    {"box:9:12 [1] enqueue.cc:51 NCCL WARN Cuda failure 'named symbol not found'\n",
     "driver_image"},
    {"Error: nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1\n",
     "driver_image"},
};
constexpr Told kMoreGpus[] = {
    {"[ 9.000001] NVRM: GPU3 _kgspLogRpcTimeout: **** GSP Timeout ****\n", "gpu_hw_fabricmgr"},
    {"dcgm: GPU 3: double bit error in its memory\n", "gpu_hw_fabricmgr"},
    {"torch.AcceleratorError: CUDA error: unknown error\n", "gpu_hw_fabricmgr"},
    {"docker: could not select device driver \"\" with capabilities: [[gpu]].\n", "driver_image"},
    {"AssertionError: Invalid device id\n", "gpu_assignment"},
};
INSTANTIATE_TEST_SUITE_P(MoreGpus, Words, testing::ValuesIn(kMoreGpus));

INSTANTIATE_TEST_SUITE_P(Gpus, Words, testing::ValuesIn(kGpus));

constexpr Told kStorage[] = {
    {"OSError: [Errno 107] Transport endpoint is not connected: '/data/shard-9'\n", "checkpoint"},
    {"[ 9.000001] blk_update_request: I/O error, dev nvme1n1, sector 77\n", "checkpoint"},
    {"OSError: [Errno 110] Connection timed out: '/mnt/nfs/ckpt'\n", "checkpoint"},
    {"zipfile.BadZipFile: File is not a zip file\n", "checkpoint"},
    {"  File \"/usr/lib/python3.11/multiprocessing/synchronize.py\", line 57, in __init__\n"
     "    sl = self._semlock = _multiprocessing.SemLock(\n"
     "OSError: [Errno 28] No space left on device\n",
     "shm"},
};
constexpr Told kCheckpoints[] = {
    {"  File \"/job/train.py\", line 9, in save_checkpoint\n"
     "    self.writer.put(state)\n"
     "TypeError: cannot pickle a generator\n",
     "checkpoint"},
    {"PermissionError: [Errno 13] Permission denied: '/data/ckpt/step_9'\n", "checkpoint"},
    {"store.errors.ClientError: An error occurred (SlowDown) when calling the PutObject operation: "
     "slower\n",
     "checkpoint"},
    {"RuntimeError: unable to open shared memory object </torch_8_9> in read-write mode: No space "
     "left on device (28)\n",
     "shm"},
};
INSTANTIATE_TEST_SUITE_P(Checkpoints, Words, testing::ValuesIn(kCheckpoints));

INSTANTIATE_TEST_SUITE_P(Storage, Words, testing::ValuesIn(kStorage));

constexpr Told kNetworks[] = {
    {"n1:5:9 [0] nccl_net_ofi_init:88 NCCL WARN NET/OFI Unable to open endpoint. RC: -22\n",
     "rdma_config"},
    {"libfabric:9:17::efa:cq:efa_rdm_rxe_handle_error():610<warn> err: 9, message: Remote key is "
     "bad\n",
     "rdma_config"},
    {"[ 5.000001] mlx5_core 0000:9b:00.0: poll_health:821: device's health compromised - reached "
     "miss count\n",
     "fabric_fault"},
    {"n1:5:9 [0] NCCL WARN socketStartConnect: Connect to 169.254.3.1<4081> failed : Software "
     "caused connection abort\n",
     "net_interface"},
    {"RuntimeError: makeDeviceForInterface(): unsupported gloo device\n", "net_interface"},
    {"ssh: connect to host gpu-2 port 22: Connection timed out\n", "net_blocked"},
};
constexpr Told kAddresses[] = {
    {"getaddrinfo: Name does not resolve\n", "dns"},
    {"ConnectionError: port taken: on port `29511`, but another process is utilizing it.\n",
     "port_in_use"},
    {"listen tcp 0.0.0.0:29400: bind: address already in use\n", "port_in_use"},
    {"socketPollConnect: connect to 10.2.3.4<4711> returned Connection refused, exceeded error "
     "retry "
     "count after 35 attempts\n",
     "rendezvous_store"},
};
INSTANTIATE_TEST_SUITE_P(Addresses, Words, testing::ValuesIn(kAddresses));

INSTANTIATE_TEST_SUITE_P(Networks, Words, testing::ValuesIn(kNetworks));

constexpr Told kLaunchers[] = {
    {"The node gpu-4 was marked dead after 30 s\n", "rank_died_early"},
    {"UNAVAILABLE: Task /job:worker/replica:0/task:3 heartbeat timeout.\n", "rank_died_early"},
    {"=   PID 4711 RUNNING AT gpu-3\n", "rank_died_early"},
    {"malloc(): unsorted double linked list corrupted\n", "rank_died_early"},
    {"python[77]: segfault at 8 ip 00007f sp 00007e error 4 in libcuda.so.1[7f00+1]\n",
     "rank_died_early"},
    {"RuntimeError: DataLoader worker (pid 912) is killed by signal: Aborted. \n",
     "rank_died_early"},
    {"LLVM ERROR: out of registers\n", "rank_died_early"},
    {"thread '<unnamed>' panicked at src/lib.rs:7:1:\n", "rank_died_early"},
    {"slurmstepd: error: Exceeded step memory limit at some point.\n", "host_oom"},
    {"command terminated with exit status 137\n", "host_oom"},
    {"[2025-11-29 09:00:00,000 E 7 7] gcs_client.cc:9: Failed to connect to GCS within 60 "
     "seconds.\n",
     "rendezvous_store"},
    {"gpu-3: Host key verification failed.\n", "launch_config"},
    {"kex_exchange_identification: Connection closed by remote host\n", "launch_config"},
    {"PRTE was unable to reliably start one or more daemons.\n", "launch_config"},
    {"Warning  Failed  2m  kubelet  Error: failed to start container \"main\": no such file\n",
     "k8s_pod_start"},
    {"FloatingPointError: Minimum loss scale reached (0.0001).\n", "numerics"},
};
constexpr Told kClusters[] = {
    {"AssertionError: world size (12) is not divisible by tensor parallel size (8)\n",
     "launch_config"},
    {"Warning  FailedAttachVolume  AttachVolume.Attach failed for volume \"pvc-8\" : deadline\n",
     "k8s_pod_start"},
    {"pod train-2 deleted: node gpu-2 is being drained\n", "rank_died_early"},
    {"slurmstepd: error: *** STEP 8.0 ON gpu-2 CANCELLED AT 2025-11-29T09:00:00 ***\n",
     "rank_died_early"},
    {"RuntimeError: Function 'DivBackward0' returned nan values in its 1th output.\n", "numerics"},
    {"systemd: train.service: systemd-oomd killed 9 process(es) in this unit.\n", "host_oom"},
};
INSTANTIATE_TEST_SUITE_P(Clusters, Words, testing::ValuesIn(kClusters));

INSTANTIATE_TEST_SUITE_P(Launchers, Words, testing::ValuesIn(kLaunchers));

constexpr const char* kQuiet[] = {
    "kernel: NVRM: Xid (PCI:0000:1b:00): 45, pid=77, name=python3, Ch 00000003\n",
    "[ 12.000001] nvidia-nvswitch2: SXid (PCI:0000:c4:00.0): 20034, Non-fatal, Link 12\n",
    "libfabric:9:17::core:core:fi_getinfo_():1392<warn> fi_getinfo: provider efa output empty "
    "list\n",
    "heartbeat timeout is set to 600 s\nstep 3 loss 2.1\nstep 4 loss 2.0\n",
    "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/2\n"
    "Initializing distributed: GLOBAL_RANK: 1, MEMBER: 2/2\n"
    "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/2\n"
    "Initializing distributed: GLOBAL_RANK: 1, MEMBER: 2/2\n",
    "exit code: 0\n",
    "  File \"/x/torch/utils/checkpoint.py\", line 7, in checkpoint\nstep 3 loss 2.1\n",
    "config: hidden size must be divisible by tensor parallel size\nstep 3 loss 2.1\n",
    "n1:5:9 [0] plugin.cc:7 NCCL WARN NET/OFI Failed to initialise\nstep 3 loss 2.1\n",
    "DEBUG memory limit 64 GiB, not exceeded\n",
    "environment of gpu-6\n  hostname: gpu-6\nstep 3 loss 2.1\n",
    "PRTE was unable to reliably start one or more daemons.\nretry\nstep 3 loss 2.1\n",
};

TEST(WordsThatAreNone, SayNothing) {
  for (const char* lines : kQuiet) EXPECT_THAT(class_of(lines), IsEmpty()) << lines;
}

TEST(Refused, NamesThePeerWhereNobodyElseIsNamed) {
  const Finding finding = first_of(
      "socketPollConnect: connect to 10.2.3.4<4711> returned Connection refused, exceeded error "
      "retry count after 35 attempts\n");
  EXPECT_THAT(finding.subject.nodes, ElementsAre("10.2.3.4"));
}

TEST(Devices, AreFoundWhereverTheyStand) {
  EXPECT_THAT(
      first_of("XID 79 (GPU has fallen off the bus) seen on PCI:0000:ae:00\n").subject.devices,
      Contains(HasSubstr("0000:ae:00")));
  EXPECT_THAT(first_of("OSError: [Errno 5] Input/output error: '/data/a.bin'\n").subject.files,
              ElementsAre("/data/a.bin"));
}

std::string summary(int others_code) {
  std::string text =
      "RuntimeError: CUDA error: an illegal memory access was encountered\n"
      "train.py FAILED\n"
      "Failures:\n"
      "[1]:\n"
      "  host      : gpu-7\n"
      "  rank      : 2 (local_rank: 2)\n"
      "  exitcode  : CODE (pid: 12)\n"
      "Root Cause (first observed failure):\n"
      "[0]:\n"
      "  host      : gpu-7\n"
      "  rank      : 5 (local_rank: 1)\n"
      "  exitcode  : 1 (pid: 11)\n";
  return text.replace(text.find("CODE"), 4, std::to_string(others_code));
}

TEST(Checkpoints, ActivationsThatAreRecomputedAreNone) {
  EXPECT_EQ(class_of("  File \"/x/torch/utils/checkpoint.py\", line 7, in checkpoint\n"
                     "    return f(*args)\n"
                     "ValueError: wrong shape\n"),
            "rank_died_early");
}

TEST(Launcher, NamesTheRankOfATracebackThatDoesNot) {
  const Finding finding = first_of(summary(-6));
  EXPECT_EQ(finding.failure_class, "app_cuda_fault");
  EXPECT_THAT(finding.subject.ranks, ElementsAre(5));
  EXPECT_THAT(finding.subject.nodes, ElementsAre("gpu-7"));
}

TEST(Launcher, NamesNobodyWhereSeveralEndedAlike) {
  EXPECT_THAT(first_of(summary(1)).subject.ranks, IsEmpty());
}

TEST(Launcher, NamesWhomItSawEndInPlaceOfAnAddress) {
  const Finding finding = first_of(
      "[rank1]: RuntimeError: [/gloo/transport/tcp/pair.cc:534] Connection closed by peer "
      "[10.9.9.2]:352\n"
      "E0526 11:02:25.394000 13 torch/distributed/elastic/multiprocessing/api.py:826] failed "
      "(exitcode: 1) local_rank: 0 (pid: 70) of binary: /usr/bin/python\n");
  EXPECT_EQ(finding.failure_class, "rank_died_early");
  EXPECT_THAT(finding.subject.ranks, ElementsAre(0));
}

TEST(Members, ThatAreLostAreNamed) {
  const Finding mpi = first_of(
      "An MPI communication peer process has unexpectedly disconnected.\n"
      "  Local host: gpu-1\n"
      "  Peer host:  gpu-6\n");
  EXPECT_EQ(mpi.code, "RUN101");
  EXPECT_THAT(mpi.subject.nodes, ElementsAre("gpu-6"));
  const Finding ray = first_of(
      "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
      "\tpid: 8110\n"
      "\tip: 10.2.2.2\n"
      "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR\n");
  EXPECT_THAT(ray.subject.nodes, ElementsAre("10.2.2.2"));
}

TEST(Members, AreNamedByTheNoticeOnly) {
  const std::string notice =
      "ORTE has lost communication with its daemon located on node:\n\n  hostname:  gpu-6\n";
  const std::string others(20, '\n');
  const Finding finding =
      first_of("  hostname:  gpu-1\n" + notice + others + "  hostname:  gpu-2\n");
  EXPECT_EQ(finding.code, "RUN101");
  EXPECT_THAT(finding.subject.nodes, ElementsAre("gpu-6"));
}

TEST(BusErrors, NameTheRankThatTheLauncherSawEnd) {
  const Finding finding = first_of(
      "torch.distributed.elastic.multiprocessing.api:failed (exitcode: -7) local_rank: 3 (pid: "
      "912) of binary: /usr/bin/python\n");
  EXPECT_EQ(finding.code, "SHM001");
  EXPECT_THAT(finding.subject.ranks, ElementsAre(3));
}

TEST(Rdma, ErrorsAfterAProcessEndedAreItsEcho) {
  const std::string died =
      "(raylet) A worker died. Worker IP address: 10.4.4.4 Worker PID: 7 Worker exit type: "
      "SYSTEM_ERROR\n";
  const std::string error = "(W pid=9, ip=10.4.4.5) mlx5: n5: got completion with error:\n";
  EXPECT_EQ(class_of(died + error), "rank_died_early");
  EXPECT_EQ(class_of(error + died), "fabric_fault");
}

TEST(Ranks, GivenTwiceAreALaunchThatIsWrong) {
  const Finding finding = first_of(
      "initializing ddp: GLOBAL_RANK: 0, MEMBER: 1/4\n"
      "initializing ddp: GLOBAL_RANK: 0, MEMBER: 1/4\n"
      "initializing ddp: GLOBAL_RANK: 1, MEMBER: 2/4\n");
  EXPECT_EQ(finding.code, "RANK101");
  EXPECT_THAT(finding.subject.ranks, ElementsAre(0));
}

TEST(CannotTell, NamesThePartOfNcclThatWarned) {
  const Finding finding =
      first_of("n1:5:9 [0] misc/cudawrap.cc:33 NCCL WARN Cuda failure 3 'initialization error'\n");
  EXPECT_EQ(finding.code, "HANG199");
  EXPECT_EQ(finding.failure_class, "driver_image");
  EXPECT_LT(finding.confidence, 0.5);
}

TEST(CannotTell, QuotesTheWarningOfThePartItNames) {
  const Finding finding = first_of(
      "n1:5:9 [0] init.cc:12 NCCL WARN something first\n"
      "n1:5:9 [0] misc/cudawrap.cc:33 NCCL WARN Cuda failure 3 'initialization error'\n");
  EXPECT_EQ(finding.failure_class, "driver_image");
  EXPECT_THAT(finding.message, testing::HasSubstr("initialization error"));
}

}  // namespace
}  // namespace shanty
