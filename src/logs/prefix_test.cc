#include "logs/prefix.h"

#include <gtest/gtest.h>

#include "base/clock.h"

namespace shanty {
namespace {

constexpr int64_t kAround = 1'764'417'600'000'000'000;  // 2025-11-29T12:00:00Z

struct Line {
  std::string text;
  std::string buffer;
  Prefix prefix;
  explicit Line(std::string line) : text(std::move(line)) {
    prefix = read_prefix(text, kAround, buffer);
  }
};

TEST(Prefix, ReadsNccl) {
  const Line line("train-worker-1:77:123 [3] NCCL INFO Bootstrap : Using eth0:10.0.0.2<0>");
  EXPECT_EQ(line.prefix.node, "train-worker-1");
  EXPECT_EQ(line.prefix.pid, 77);
  EXPECT_EQ(line.prefix.rank, -1);
  EXPECT_EQ(line.prefix.message, "NCCL INFO Bootstrap : Using eth0:10.0.0.2<0>");
  const Line stamped("[2025-11-29 10:04:05] h-1:7:9 [0] misc/socket.cc:5 NCCL WARN x");
  EXPECT_EQ(format_utc(stamped.prefix.unix_ns), "2025-11-29T10:04:05.000Z");
  EXPECT_EQ(stamped.prefix.node, "h-1");
}

TEST(Prefix, ReadsC10dOfAllVersions) {
  const Line now(
      "[rank9]:[E419 13:27:42.301344821 ProcessGroupNCCL.cpp:616] [PG ID 2 PG GUID 5(tp) Rank 1] "
      "x");
  EXPECT_EQ(now.prefix.rank, 9);
  EXPECT_EQ(now.prefix.group_rank, 1);
  EXPECT_EQ(now.prefix.group, "5(tp)");
  EXPECT_EQ(format_utc(now.prefix.unix_ns), "2025-04-19T13:27:42.301Z");
  EXPECT_EQ(now.prefix.message, "x");
  const Line inside(
      "[rank9]:[E419 13:27:42.301344821 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught");
  EXPECT_EQ(inside.prefix.rank, 9);
  const Line older("[E ProcessGroupNCCL.cpp:455] [Rank 3] Watchdog caught");
  EXPECT_EQ(older.prefix.rank, 3);
  const Line between("[PG 0 Rank 2] Timeout at NCCL work: 19");
  EXPECT_EQ(between.prefix.rank, 2);
}

TEST(Prefix, ReadsElasticOfAllVersions) {
  EXPECT_EQ(Line("E0419 13:27:42.301344 77 torch/distributed/elastic/multiprocessing/api.py:869] "
                 "failed")
                .prefix.message,
            "failed");
  EXPECT_EQ(Line("[2024-05-02 11:21:12,123] torch.distributed.elastic.multiprocessing.api: [ERROR] "
                 "failed")
                .prefix.message,
            "failed");
  EXPECT_EQ(Line("ERROR:torch.distributed.elastic.multiprocessing.api:failed").prefix.message,
            "failed");
  EXPECT_EQ(Line("[INFO] 2021-12-08 12:28:26,050 api: failed").prefix.message, "failed");
}

TEST(Prefix, ReadsNcclWithoutAProcess) {
  const Line line("node-7 [2] NCCL WARN Call to recv failed");
  EXPECT_EQ(line.prefix.node, "node-7");
  EXPECT_EQ(line.prefix.pid, -1);
  EXPECT_EQ(line.prefix.message, "NCCL WARN Call to recv failed");
  const Line source("node-7:55 [2] misc/socket.cc:44 NCCL WARN x");
  EXPECT_EQ(source.prefix.pid, 55);
  EXPECT_EQ(source.prefix.message, "misc/socket.cc:44 NCCL WARN x");
  EXPECT_EQ(Line("step [2] loss NCCL INFO").prefix.node, "");
}

TEST(Prefix, ReadsRayWithAndWithoutActors) {
  const Line bare("(pid=909) host-3:909:910 [0] NCCL INFO x");
  EXPECT_EQ(bare.prefix.pid, 909);
  EXPECT_EQ(bare.prefix.node, "host-3");
  const Line named("(xyzWorkerDict_1:3 WorkerDict pid=7, ip=[2605:34::1]) x");
  EXPECT_EQ(named.prefix.node, "2605:34::1");
  EXPECT_EQ(named.prefix.message, "x");
  EXPECT_EQ(Line("(VllmWorker rank=3 pid=12) x").prefix.rank, 3);
}

TEST(Prefix, ReadsRanksOfTensorParallelServers) {
  EXPECT_EQ(Line("[2025-11-29 18:11:28 TP5] x").prefix.rank, 5);
  EXPECT_EQ(Line("[2025-11-29 18:11:28 DP15 TP15 EP3] x").prefix.rank, 15);
}

TEST(Prefix, PeelsLaunchersInAnyOrder) {
  const Line tee("[default3]:[rank11]: Traceback (most recent call last):");
  EXPECT_EQ(tee.prefix.local_rank, 3);
  EXPECT_EQ(tee.prefix.rank, 11);
  const Line pod("[pod/train-worker-0/pytorch] 2025-11-29T10:04:05.123456789Z [rank4]: boom");
  EXPECT_EQ(pod.prefix.pod, "train-worker-0");
  EXPECT_EQ(pod.prefix.rank, 4);
  EXPECT_EQ(pod.prefix.message, "boom");
  const Line ray("\x1b[36m(RayTrainWorker pid=812, ip=10.1.2.3)\x1b[0m boom");
  EXPECT_EQ(ray.prefix.pid, 812);
  EXPECT_EQ(ray.prefix.node, "10.1.2.3");
  EXPECT_EQ(Line("[1,5]<stderr>:boom").prefix.rank, 5);
  EXPECT_EQ(Line(" 7: boom").prefix.rank, 7);
  EXPECT_EQ(Line("mpi-job-worker-2: boom").prefix.pod, "mpi-job-worker-2");
  for (const char* node : {"NODE12", "GPUCA6E", "ML-GPU-03", "SH-IDC1-10-142-5-123"}) {
    const Line pdsh(std::string(node) + ": boom");
    EXPECT_EQ(pdsh.prefix.node, node);
    EXPECT_EQ(pdsh.prefix.message, "boom");
  }
  const Line sys("Nov 29 10:04:05 node-3 kernel: NVRM: Xid");
  EXPECT_EQ(sys.prefix.node, "node-3");
  EXPECT_EQ(sys.prefix.message, "NVRM: Xid");
}

TEST(Prefix, OpensStructuredLines) {
  const Line docker(R"({"log":"[rank2]: boom\n","stream":"stderr","time":"2025-11-29T10:04:05Z"})");
  EXPECT_EQ(docker.prefix.rank, 2);
  EXPECT_EQ(docker.prefix.message, "boom");
  const Line cri("2025-11-29T10:04:05.1Z stderr F [rank2]: boom");
  EXPECT_EQ(cri.prefix.message, "boom");
  const Line structured(R"({"level":"error","rank":6,"ts":1764410645.5,"msg":"boom"})");
  EXPECT_EQ(structured.prefix.rank, 6);
  EXPECT_EQ(structured.prefix.message, "boom");
}

TEST(Prefix, LeavesMessagesAlone) {
  for (const char* text :
       {"RuntimeError: NCCL error", "ValueError: 3: bad", "step 12: loss 3", "{not json}", "",
        "OSError: [Errno 24] Too many open files", "train.py FAILED", "GPU0: 3 GiB", "UTF-8: bad",
        "SHA-256: bad", "ZERO3: on", "GPT2: loading"}) {
    EXPECT_EQ(Line(text).prefix.message, text);
  }
}

TEST(Prefix, ReadsRanksOfHorovodrun) {
  EXPECT_EQ(Line("[3]<stderr>:Killed").prefix.rank, 3);
  EXPECT_EQ(Line("[3]<stderr>:Killed").prefix.message, "Killed");
}

TEST(Prefix, ReadsWhatDeterminedPrints) {
  const Line line("[2024-02-27T21:35:32.106313Z] fa88a9df [rank=3] || ValueError: bad");
  EXPECT_EQ(line.prefix.node, "fa88a9df");
  EXPECT_EQ(line.prefix.rank, 3);
  EXPECT_EQ(line.prefix.message, "ValueError: bad");
}

TEST(Prefix, ANumberBehindARankIsTheProgramsOwn) {
  EXPECT_EQ(Line("3: loading").prefix.rank, 3);
  const Line line("[1,0]<stderr>:3: loading");
  EXPECT_EQ(line.prefix.rank, 0);
  EXPECT_EQ(line.prefix.message, "3: loading");
}

TEST(Prefix, FindsTagsBehindFrontsThatNoRowKnows) {
  EXPECT_EQ(Line("srv7/job#4 >> [rank3]: ValueError: x").prefix.rank, 3);
  EXPECT_EQ(Line("srv7/job#4 >> [rank3]: ValueError: x").prefix.message, "ValueError: x");
  EXPECT_EQ(Line("(x) > [default2]:words").prefix.local_rank, 2);
  EXPECT_EQ(Line("app#4 > n1:77:9 [0] NCCL INFO x").prefix.pid, 77);
  EXPECT_EQ(Line("Name - INFO - [rank3]: x").prefix.rank, 3);
  EXPECT_EQ(Line("app#4 > [1,7]<stderr>:x").prefix.rank, 7);
  EXPECT_EQ(Line("app#4 > [pod/job-0/main] x").prefix.pod, "job-0");
  EXPECT_EQ(Line("app#4 > (Worker pid=7, ip=10.1.2.3) x").prefix.node, "10.1.2.3");
  EXPECT_EQ(Line("words of a [rank3] in a sentence").prefix.rank, -1);
  EXPECT_EQ(Line(std::string(400, 'x') + " [rank3]: x").prefix.rank, -1);
}

TEST(Prefix, ReadsColumnsAndWhatTorchNpuPrints) {
  const Line columns("  |   | 2025-11-29T10:04:05.976Z | [3]: words");
  EXPECT_EQ(columns.prefix.local_rank, 3);
  EXPECT_EQ(columns.prefix.message, "words");
  const Line npu("[ERROR] 2025-11-29-10:04:05 (PID:77, Device:3, RankID:5) ERR02200 x");
  EXPECT_EQ(npu.prefix.rank, 5);
  EXPECT_EQ(npu.prefix.message, "ERR02200 x");
}

TEST(FileName, TellsWhoWroteIt) {
  EXPECT_EQ(read_file_name("logs/rank_3.log").rank, 3);
  EXPECT_EQ(read_file_name("logs/gen-0002/rank-00017.log").rank, 17);
  EXPECT_EQ(read_file_name("logs/gen-0002/rank-00017.log").generation, 2);
  EXPECT_EQ(read_file_name("node-1/rank3").rank, 3);
  EXPECT_EQ(read_file_name("node-1/rank3").node, "node-1");
  EXPECT_EQ(read_file_name("x/none_abc/attempt_1/2/stderr.log").local_rank, 2);
  EXPECT_EQ(read_file_name("x/none_abc/attempt_1/2/stderr.log").generation, 1);
  EXPECT_EQ(read_file_name("0/stdout.log").local_rank, 0);
  EXPECT_EQ(read_file_name("train-worker-2.log").pod, "train-worker-2");
  EXPECT_EQ(read_file_name("a.tar.gz: out/7.log").number, 7);
  EXPECT_EQ(read_file_name("a.tar.gz: out/7.log").rank, -1);
  EXPECT_EQ(read_file_name("train.log").rank, -1);
}

}  // namespace
}  // namespace shanty
