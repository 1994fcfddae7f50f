#include "cluster/cgroup.h"
#include "cluster/cluster.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "cluster/files.h"

namespace shanty {
namespace {

// A root directory of small files that lives as long as the test.
class FakeRoot {
 public:
  FakeRoot() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cluster-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~FakeRoot() { std::filesystem::remove_all(path_); }

  FakeRoot& file(const std::string& name, const std::string& text) {
    const std::filesystem::path full = path_ + name;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
    return *this;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void add_machine(FakeRoot& root) {
  root.file("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-15,32-47\n")
      .file("/proc/meminfo", "MemTotal:       1048576 kB\nMemFree: 1 kB\n")
      .file("/proc/sys/kernel/hostname", "node-7\n");
}

TEST(Cluster, ReadsTheMachineWhereNothingLimits) {
  FakeRoot root;
  add_machine(root);
  const Cluster cluster = read_cluster(root.path());
  EXPECT_EQ(cluster.hostname, "node-7");
  EXPECT_EQ(cluster.cpus, 32u);
  EXPECT_EQ(cluster.memory_bytes, 1ull << 30);
  EXPECT_EQ(cluster.memory_from, "/proc/meminfo");
  EXPECT_EQ(cluster.gpus, 0u);
  EXPECT_EQ(cluster.shm_bytes, std::nullopt);
}

TEST(Cluster, TightestLimitOfCgroupV2AndItsParentsCounts) {
  FakeRoot root;
  add_machine(root);
  root.file("/proc/self/cgroup", "0::/kubepods/pod1/c1\n")
      .file("/sys/fs/cgroup/kubepods/pod1/c1/cpu.max", "max 100000\n")
      .file("/sys/fs/cgroup/kubepods/pod1/cpu.max", "350000 100000\n")
      .file("/sys/fs/cgroup/kubepods/pod1/c1/memory.max", "max\n")
      .file("/sys/fs/cgroup/kubepods/memory.max", "536870912\n");
  const Cluster cluster = read_cluster(root.path());
  EXPECT_EQ(cluster.cpus, 3u);
  EXPECT_EQ(cluster.cpus_from, "/sys/fs/cgroup/kubepods/pod1/cpu.max");
  EXPECT_EQ(cluster.memory_bytes, 512u << 20);
  EXPECT_EQ(cluster.memory_from, "/sys/fs/cgroup/kubepods/memory.max");
}

TEST(Cluster, CgroupV1LimitsCountAndItsNoLimitDoesNot) {
  FakeRoot root;
  add_machine(root);
  root.file("/proc/self/cgroup", "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n3:freezer:/\n")
      .file("/sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us", "50000\n")
      .file("/sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us", "100000\n")
      .file("/sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "9223372036854771712\n");
  const Cluster cluster = read_cluster(root.path());
  EXPECT_EQ(cluster.cpus, 1u);
  EXPECT_EQ(cluster.memory_bytes, 1ull << 30);
}

TEST(Cluster, RoomForMemoryIsWhatTheTightestGroupLeavesWithoutItsFileCache) {
  FakeRoot root;
  root.file("/proc/meminfo", "MemTotal: 9000 kB\nMemAvailable: 8000 kB\n");
  EXPECT_EQ(read_memory_room(root.path())->value, 8000 * 1024);
  root.file("/proc/self/cgroup", "0::/pod/c\n")
      .file("/sys/fs/cgroup/pod/memory.max", "4000000\n")
      .file("/sys/fs/cgroup/pod/memory.current", "3000000\n")
      .file("/sys/fs/cgroup/pod/memory.stat", "anon 9\ninactive_file 500000\nactive_file 1000\n")
      .file("/sys/fs/cgroup/pod/c/memory.max", "max\n")
      .file("/sys/fs/cgroup/pod/c/memory.current", "3000000\n");
  const auto room = read_memory_room(root.path());
  EXPECT_EQ(room->value, 1501000);
  EXPECT_EQ(room->from, "/sys/fs/cgroup/pod/memory.max");
  root.file("/sys/fs/cgroup/pod/memory.current", "5000000\n");
  EXPECT_LE(read_memory_room(root.path())->value, 1);
}

TEST(Cluster, RoomForMemoryInCgroupV1) {
  FakeRoot root;
  root.file("/proc/self/cgroup", "4:memory:/docker/x\n")
      .file("/sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "4000000\n")
      .file("/sys/fs/cgroup/memory/docker/x/memory.usage_in_bytes", "1000000\n")
      .file("/sys/fs/cgroup/memory/docker/x/memory.stat", "total_inactive_file 600000\n");
  EXPECT_EQ(read_memory_room(root.path())->value, 3600000);
  EXPECT_FALSE(read_memory_room(FakeRoot().path()));
}

TEST(Cluster, ShmSizeComesFromTheMountOrIsHalfTheMemory) {
  FakeRoot root;
  add_machine(root);
  root.file("/proc/self/mounts", "shm /dev/shm tmpfs rw,nosuid,size=65536k,inode64 0 0\n");
  EXPECT_EQ(read_cluster(root.path()).shm_bytes, 64u << 20);
  root.file("/proc/self/mounts", "tmpfs /dev/shm tmpfs rw,nosuid 0 0\n");
  EXPECT_EQ(read_cluster(root.path()).shm_bytes, 512u << 20);
}

TEST(Cluster, CountsGpusAndNamesTheirModel) {
  FakeRoot root;
  root.file("/dev/nvidia0", "").file("/dev/nvidia1", "").file("/dev/nvidiactl", "");
  root.file("/proc/driver/nvidia/gpus/0000:3b:00.0/information",
            "Model: \t\t NVIDIA A100-SXM4-80GB\nIRQ: 1\n");
  const Cluster cluster = read_cluster(root.path());
  EXPECT_EQ(cluster.gpus, 2u);
  EXPECT_EQ(cluster.gpu_model, "NVIDIA A100-SXM4-80GB");
}

TEST(Cluster, FastestInterfaceThatIsUpIsTheLink) {
  FakeRoot root;
  root.file("/sys/class/net/eth0/speed", "1000\n").file("/sys/class/net/eth0/operstate", "up\n");
  root.file("/sys/class/net/eth1/speed", "25000\n").file("/sys/class/net/eth1/operstate", "up\n");
  root.file("/sys/class/net/eth2/speed", "100000\n");
  root.file("/sys/class/net/eth2/operstate", "down\n");
  root.file("/sys/class/net/veth/speed", "-1\n").file("/sys/class/net/veth/operstate", "up\n");
  const Cluster cluster = read_cluster(root.path());
  EXPECT_EQ(cluster.link_bytes_per_s, 25e9 / 8);
  EXPECT_EQ(cluster.link_name, "eth1");
}

TEST(Cluster, AnEmptyRootGivesAnEmptyCluster) {
  const FakeRoot root;
  const Cluster cluster = read_cluster(root.path());
  EXPECT_EQ(cluster.cpus, std::nullopt);
  EXPECT_EQ(cluster.memory_bytes, std::nullopt);
}

TEST(Cluster, GarbageIsNotAFact) {
  FakeRoot root;
  root.file("/proc/self/status", "Cpus_allowed_list:\t9-3,x,-\n")
      .file("/proc/meminfo", "MemTotal: lots\n")
      .file("/proc/self/cgroup", "0::/a\nnonsense\n::\n")
      .file("/sys/fs/cgroup/a/cpu.max", "1 0\n")
      .file("/sys/fs/cgroup/a/memory.max", "-5\n")
      .file("/proc/self/mounts", "tmpfs /dev/shm tmpfs size=banana 0 0\n");
  const Cluster cluster = read_cluster(root.path());
  EXPECT_EQ(cluster.cpus, std::nullopt);
  EXPECT_EQ(cluster.memory_bytes, std::nullopt);
  EXPECT_EQ(cluster.shm_bytes, std::nullopt);
}

TEST(Cluster, ThisMachineHasCpusAndMemory) {
  const Cluster cluster = read_cluster();
  EXPECT_GE(cluster.cpus.value_or(0), 1u);
  EXPECT_GT(cluster.memory_bytes.value_or(0), 1u << 20);
}

TEST(CpuList, CountsRanges) {
  EXPECT_EQ(count_cpu_list("0-3,8"), 5u);
  EXPECT_EQ(count_cpu_list(""), 0u);
}

}  // namespace
}  // namespace shanty
