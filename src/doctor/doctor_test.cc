#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causes/catalogue.h"
#include "doctor/diagnose.h"
#include "doctor/readers/readers.h"
#include "doctor/verdict_text.h"
#include "logs/scan.h"

namespace shanty {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Diagnosis diagnose_text(const std::string& text, const std::string& name = "job.log") {
  LogScanner scanner;
  const auto source = memory_source(text);
  scanner.scan(*source,
               {.name = name, .around_unix_ns = 1'764'417'600'000'000'000, .time_at = nullptr});
  CaseFiles files;
  files.logs = scanner.finish();
  return diagnose(files);
}

TEST(Sniff, TellsKindsByNameAndContent) {
  EXPECT_EQ(sniff_input("a", "apiVersion: v1\nkind: Pod\n"), InputKind::kKubernetesYaml);
  EXPECT_EQ(sniff_input("a", "{\n \"apiVersion\": \"v1\", \"kind\": \"List\"}"),
            InputKind::kKubernetesYaml);
  EXPECT_EQ(sniff_input("a", "Name:   x\nNamespace:  y\n"), InputKind::kDescribe);
  EXPECT_EQ(sniff_input("a", "LAST SEEN   TYPE"), InputKind::kEventTable);
  EXPECT_EQ(sniff_input("a", "\tGPU0\tGPU1\tCPU Affinity\n"), InputKind::kTopologyMatrix);
  EXPECT_EQ(sniff_input("a", "| NVIDIA-SMI 550.54  Driver"), InputKind::kNvidiaSmi);
  EXPECT_EQ(sniff_input("x/dmesg.txt", "[1.0] hello"), InputKind::kKernelLog);
  EXPECT_EQ(sniff_input("train.log", "step 1 loss 2"), InputKind::kLog);
  EXPECT_EQ(sniff_input("d", std::string("\x80\x02}q\x00(X\x09\x00\x00\x00pg_config", 20)),
            InputKind::kFlightRecorder);
}

TEST(Weigh, PutsCausesBeforeConsequences) {
  const Diagnosis diagnosis = diagnose_text(
      "[rank1]: Traceback (most recent call last):\n"
      "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has "
      "a "
      "total capacity of 79.15 GiB of which 1.12 GiB is free.\n"
      "[rank0]: RuntimeError: [../gloo/transport/tcp/pair.cc:598] Connection closed by peer "
      "[10.0.0.2]:4711\n");
  ASSERT_FALSE(diagnosis.findings.empty());
  EXPECT_EQ(diagnosis.findings[0].failure_class, "gpu_oom");
  EXPECT_THAT(diagnosis.findings[0].subject.ranks, ElementsAre(1));
  for (size_t i = 1; i < diagnosis.findings.size(); ++i) {
    EXPECT_EQ(diagnosis.findings[i].severity, Severity::kNote);
  }
}

TEST(Diagnose, SaysNothingOfNoise) {
  const Diagnosis diagnosis = diagnose_text(
      "[W socket.cpp:663] [c10d] The IPv6 network addresses of (host, 29500) cannot be retrieved "
      "(gai "
      "error: -2 - Name or service not known).\n"
      "h:1:2 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so\n"
      "step 1 loss 2.0\nstep 2 loss 1.9\n");
  for (const Finding& finding : diagnosis.findings) {
    EXPECT_EQ(finding.severity, Severity::kNote) << finding.message;
  }
}

std::string loud(const Diagnosis& diagnosis) {
  std::string out;
  for (const Finding& finding : diagnosis.findings) {
    if (finding.severity != Severity::kNote) out += finding.code + " ";
  }
  return out;
}

TEST(Diagnose, TakesTheEndOfAnExcerptForNoFailure) {
  EXPECT_EQ(loud(diagnose_text("host:1:1 [0] NCCL INFO Bootstrap : Using eth0:192.168.1.7<0>\n"
                               "host:1:1 [0] NCCL INFO NET/Socket : Using [0]eth0:192.168.1.7<0>\n"
                               "host:1:1 [0] NCCL INFO Using network Socket\n")),
            "");
}

TEST(Diagnose, TellsTheSearchForALossScaleFromOneWithoutEnd) {
  const auto halvings = [](double from, int count) {
    std::string out;
    for (int i = 0; i < count; ++i, from /= 2) {
      out +=
          "[2024-09-11 17:52:11,320] [INFO] [loss_scaler.py:183:update_scale] [deepspeed] "
          "OVERFLOW! Rank 0 Skipping step. Attempted loss scale: " +
          std::to_string(from) + ", reducing to " + std::to_string(from / 2) + "\n";
    }
    return out;
  };
  EXPECT_EQ(loud(diagnose_text(halvings(4294967296.0, 16))), "");
  EXPECT_EQ(loud(diagnose_text(halvings(65536, 16))), "NUM101 ");
}

TEST(Diagnose, NamesNobodyInAnExcerptOfFewRanks) {
  const std::string line =
      "[rank6]:[E1129 10:04:05.123456789 ProcessGroupNCCL.cpp:616] [Rank 6] Watchdog caught "
      "collective operation timeout: WorkNCCL(SeqNum=316, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
      "Timeout(ms)=600000) ran for 600030 milliseconds before timing out.\n";
  std::string other = line;
  for (size_t at = other.find("ank6"); at != other.npos; at = other.find("ank6")) {
    other.replace(at, 4, "ank3");
  }
  other.replace(other.find("Rank 6"), 6, "Rank 3");
  const Diagnosis diagnosis = diagnose_text(line + other);
  ASSERT_FALSE(diagnosis.findings.empty());
  EXPECT_EQ(diagnosis.findings[0].code, "HANG199");
  EXPECT_TRUE(diagnosis.findings[0].subject.ranks.empty());
}

TEST(Diagnose, TakesAnUncaughtTimeoutForNoCrash) {
  const Diagnosis diagnosis = diagnose_text(
      "[E ProcessGroupNCCL.cpp:821] [Rank 0] Watchdog caught collective operation timeout: "
      "WorkNCCL(SeqNum=316, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1803457 milliseconds "
      "before timing out.\n"
      "terminate called after throwing an instance of 'std::runtime_error'\n"
      "  what():  [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=316, "
      "OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1803457 milliseconds before timing out.\n");
  EXPECT_THAT(loud(diagnosis), Not(HasSubstr("RUN102")));
}

TEST(Diagnose, LetsOneHostUseItsLoopback) {
  const auto mesh = [](const char* launched) {
    return std::string("  max_nodes        : ") + launched +
           "\nRuntimeError: Gloo connectFullMesh failed with [../gloo/transport/tcp/pair.cc:144] "
           "timed out connecting: SO_ERROR: Connection refused, remote=[127.0.0.1]:4711 (rank=1, "
           "size=2, local=[127.0.0.1])\n";
  };
  EXPECT_THAT(loud(diagnose_text(mesh("1"))), Not(HasSubstr("NET101")));
  EXPECT_EQ(loud(diagnose_text(mesh("2"))), "NET101 ");
}

TEST(Diagnose, TellsWhyPodsAndMemoryAreRefused) {
  const auto first = [](const std::string& text) {
    const Diagnosis diagnosis = diagnose_text(text);
    return diagnosis.findings.empty() ? "" : diagnosis.findings[0].code;
  };
  EXPECT_EQ(
      first("n:1:2 [0] include/shm.h:27 NCCL WARN Call to shm_open failed : Permission denied\n"
            "n:1:2 [0] include/shm.h:48 NCCL WARN Error while creating shared memory segment "
            "nccl-shm-recv-b794-0-3-0 (size 4460544)\n"),
      "SHM101");
  EXPECT_EQ(first("n:1:2 [0] include/shm.h:48 NCCL WARN Error while creating shared memory segment "
                  "nccl-shm-recv-b794-0-3-0 (size 4460544)\n"),
            "SHM001");
  EXPECT_EQ(first("NAME         READY   STATUS    RESTARTS   AGE\n"
                  "worker-7     0/1     Evicted   0          73m\n"),
            "POD101");
  EXPECT_EQ(first("worker-7     0/1     OutOfmemory   0          1s\n"), "SCHED101");
  EXPECT_EQ(first("worker-7     1/1     Running   0          1s\n"), "");
}

TEST(Diagnose, KnowsOneCauseByItsSeveralWordings) {
  const auto first = [](const std::string& text) {
    const Diagnosis diagnosis = diagnose_text(text);
    return diagnosis.findings.empty() ? "" : diagnosis.findings[0].failure_class;
  };
  EXPECT_EQ(
      first("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate\n"),
      "gpu_oom");
  EXPECT_EQ(first("[rank0]: torch.OutOfMemoryError: Allocation on device \n"), "gpu_oom");
  EXPECT_EQ(first("Fatal Python error: Bus error\n"), "shm");
  EXPECT_EQ(first("_pickle.UnpicklingError: invalid load key, 'v'.\n"), "checkpoint");
  EXPECT_EQ(first("RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable\n"),
            "gpu_assignment");
  EXPECT_EQ(first("AssertionError: Torch not compiled with CUDA enabled\n"), "driver_image");
  EXPECT_EQ(first("  Normal  BackOff  2s  kubelet  Back-off pulling image \"foo:bar\"\n"),
            "k8s_pod_start");
  EXPECT_EQ(first("[W socket.cpp:436] [c10d] The server socket has failed to bind to "
                  "[10.1.2.3]:29500 (errno: 99 - Cannot assign requested address).\n"),
            "rendezvous_store");
  EXPECT_EQ(first("RuntimeError: It looks like your LightningModule has parameters that were not "
                  "used in producing the loss returned by training_step.\n"),
            "ddp_usage");
  EXPECT_EQ(first("g:1:2 [0] include/socket.h:360 WARN Call to connect failed : Connection timed "
                  "out\n"),
            "net_blocked");
  EXPECT_EQ(first("    store = TCPStore(master_addr, master_port)\n"
                  "RuntimeError: Connection timed out\n"),
            "net_blocked");
  EXPECT_EQ(
      first("torch.distributed.elastic.multiprocessing.api.SignalException: Process 40121 got "
            "signal: 1\n"),
      "rank_died_early");
}

TEST(Diagnose, SaysNothingLoudOfAdviceAndBeginnings) {
  EXPECT_EQ(loud(diagnose_text("This DataLoader will create 16 worker processes in total. Our "
                               "suggested max number of worker in current system is 4\n")),
            "");
  EXPECT_EQ(loud(diagnose_text("NCCL INFO ncclCommInitRankConfig comm 0x57a7c7b82cf0 rank 0 nranks "
                               "8 cudaDev 0 nvmlDev 0 busId 1a000 commId 0xdf55 - Init START\n")),
            "");
}

TEST(Diagnose, LooksAtTheFirstAttempt) {
  const Diagnosis diagnosis = diagnose_text(
      "[rank1]: OSError: [Errno 24] Too many open files\n"
      "INFO:torch.distributed.elastic.agent.server.api:[default] Worker group FAILED. 3/3 attempts "
      "left; will restart worker group\n"
      "RuntimeError: The server socket has failed to listen on any local network address. port: "
      "29500, "
      "useIpv6: 0, code: -98, name: EADDRINUSE, message: address already in use\n");
  ASSERT_FALSE(diagnosis.findings.empty());
  EXPECT_EQ(diagnosis.findings[0].failure_class, "host_limits");
}

TEST(Verdict, PutsItIntoEveryForm) {
  const Diagnosis diagnosis =
      diagnose_text("[rank3]: OSError: [Errno 24] Too many open files <b>&\n");
  EXPECT_THAT(verdict_text(diagnosis), HasSubstr("rank 3"));
  EXPECT_THAT(verdict_json(diagnosis), HasSubstr("\"class\": \"host_limits\""));
  EXPECT_THAT(verdict_markdown(diagnosis), HasSubstr("`job.log:1`"));
  EXPECT_THAT(verdict_html(diagnosis), HasSubstr("&lt;b&gt;&amp;"));
  EXPECT_THAT(verdict_html(diagnosis), Not(HasSubstr("http")));
}

TEST(Verdict, LetsNoLogLineWriteMarkdown) {
  const std::string text = verdict_markdown(
      diagnose_text("Traceback (most recent call last):\n"
                    "ValueError: <img src=x> [here](http://example.org) `rm` *all*\n"));
  EXPECT_THAT(text, HasSubstr(R"(\<img src=x\> \[here\](http://example.org) \`rm\` \*all\*)"));
  EXPECT_THAT(text, HasSubstr("`ValueError: <img src=x> [here](http://example.org) 'rm' *all*`"));
}

TEST(Verdict, FitsNarrowTerminals) {
  const Diagnosis diagnosis = diagnose_text("[rank3]: OSError: [Errno 24] Too many open files\n");
  const std::string text = verdict_text(diagnosis, {.color = false, .width = 60});
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    EXPECT_LE(end - at, 60u) << text.substr(at, end - at);
    at = end + 1;
  }
}

TEST(Redact, ReplacesTheSameThingByTheSameWord) {
  const Diagnosis diagnosis = redacted(diagnose_text(
      "gpu-node-7:1:2 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-Ab3 "
      "to "
      "9637892 bytes, error: No space left on device (28) token=abcd1234 10.1.2.3 10.1.2.3\n"));
  const std::string json = verdict_json(diagnosis);
  EXPECT_THAT(json, Not(HasSubstr("gpu-node-7")));
  EXPECT_THAT(json, Not(HasSubstr("10.1.2.3")));
  EXPECT_THAT(json, Not(HasSubstr("abcd1234")));
  EXPECT_THAT(json, HasSubstr("address-1 address-1"));
}

TEST(Readers, UnderstandPods) {
  ClusterFacts facts;
  read_kubernetes(
      "apiVersion: v1\nkind: Pod\nmetadata: {name: w-1}\nspec:\n  hostNetwork: true\n  dnsPolicy: "
      "ClusterFirst\n  nodeName: n1\n  containers:\n  - name: istio-proxy\n  - name: pytorch\n    "
      "volumeMounts: [{mountPath: /dev/shm, name: shm}]\n    env: [{name: WORLD_SIZE, value: "
      "\"8\"}]\n"
      "status:\n  phase: Running\n  containerStatuses:\n  - name: pytorch\n    restartCount: 3\n   "
      " "
      "lastState: {terminated: {reason: OOMKilled, exitCode: 137}}\n",
      "pods.yaml", facts);
  ASSERT_EQ(facts.pods.size(), 1u);
  const PodFact& pod = facts.pods[0];
  EXPECT_TRUE(pod.host_network && pod.has_sidecar && pod.shm_mounted);
  EXPECT_EQ(pod.restarts, 3);
  EXPECT_EQ(pod.last_reason, "OOMKilled");
  EXPECT_EQ(pod.last_exit_code, 137);
  EXPECT_EQ(pod.env.at("WORLD_SIZE"), "8");
}

TEST(Readers, UnderstandEventsOfPods) {
  ClusterFacts facts;
  read_kubernetes(
      "apiVersion: v1\nkind: Event\ninvolvedObject: {kind: Pod, name: w-3}\nreason: Failed\n"
      "message: 'Failed to pull image \"a:1\": rpc error'\nsource: {host: n9}\n",
      "event.yaml", facts);
  ASSERT_EQ(facts.pods.size(), 1u);
  EXPECT_EQ(facts.pods[0].name, "w-3");
  EXPECT_EQ(facts.pods[0].node, "n9");
  EXPECT_EQ(facts.pods[0].waiting_reason, "ErrImagePull");
}

TEST(Readers, UnderstandStacksThatWerePasted) {
  const std::string text =
      "The stack for rank0:\nThread 0x7FA6E7C01740 (idle): \"MainThread\"\n    wait "
      "(threading.py:302)\n    get (queue.py:170)\n    __next__ (fairseq/data/iterators.py:648)\n";
  EXPECT_EQ(sniff_input("hang.log", text), InputKind::kPySpy);
  ClusterFacts facts;
  read_py_spy(text, "hang.log", facts);
  ASSERT_EQ(facts.stacks.size(), 1u);
  EXPECT_EQ(facts.stacks[0].rank, 0);
  EXPECT_EQ(facts.stacks[0].frames.size(), 3u);
}

TEST(Readers, UnderstandTablesAndDumps) {
  ClusterFacts facts;
  read_nvidia_smi(
      "|   0  NVIDIA A100-SXM4-80GB          On  | 00000000:07:00.0 Off |                    2 |\n"
      "| N/A   34C    P0    52W / 400W |   1024MiB / 81920MiB |     98%      Default |\n",
      "node-3/nvidia-smi.txt", facts);
  ASSERT_EQ(facts.gpus.size(), 1u);
  EXPECT_EQ(facts.gpus[0].utilisation, 98);
  EXPECT_EQ(facts.gpus[0].uncorrectable_errors, 2);
  EXPECT_EQ(facts.gpus[0].node, "node-3");
  read_topology_matrix("\tGPU0\tGPU1\tmlx5_0\tCPU Affinity\nGPU0\t X \tNV12\tPIX\t0-31\n", "t",
                       facts);
  ASSERT_EQ(facts.links.size(), 2u);
  EXPECT_EQ(facts.links[1].kind, "PIX");
  read_nccl_tests("# Avg bus bandwidth    : 93.4\n# Out of bounds values : 0 OK\n", "n", facts);
  read_iperf("[  5]   0.00-10.00  sec  11.0 GBytes  9.41 Gbits/sec    0             receiver\n",
             "i", facts);
  ASSERT_EQ(facts.bandwidths.size(), 2u);
  EXPECT_NEAR(facts.bandwidths[1].gigabytes_per_s, 1.176, 0.01);
  read_py_spy(
      "Process 77: python\nPython v3.10\n\nThread 77 (idle): \"MainThread\"\n    wait "
      "(threading.py:1)\n",
      "rank_2.txt", facts);
  ASSERT_EQ(facts.stacks.size(), 1u);
  EXPECT_EQ(facts.stacks[0].rank, 2);
  EXPECT_THAT(facts.stacks[0].frames, ElementsAre("wait (threading.py:1)"));
}

}  // namespace
}  // namespace shanty
