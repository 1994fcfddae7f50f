#include <algorithm>

#include <fmt/format.h>

#include "base/units.h"
#include "plan/rules.h"

namespace shanty {
namespace {

constexpr uint64_t kMinCpusPerGpu = 8;
constexpr uint64_t kMaxCpusPerGpu = 16;
constexpr uint64_t kMiB = 1u << 20;
constexpr uint64_t kMemoryPerGpuBytes = 64'000'000'000;
constexpr uint64_t kMemoryPerProcessBytes = 4'000'000'000;
constexpr uint64_t kMaxAutoWorkers = 8;
// 16 GiB carry about 8 workers of medium-sized images.
constexpr uint64_t kShmPerWorkerBytes = (16ull << 30) / 8;
// What communication libraries take of /dev/shm when no loader does.
constexpr uint64_t kMinShmBytes = 1ull << 30;

std::string shared_by(uint64_t nodes) {
  return nodes == 1 ? "" : fmt::format(", shared by the {} nodes that run on it", nodes);
}

std::string shm_here(const PlanInputs& in, uint64_t need_bytes) {
  if (!in.runs_here() || !in.cluster.shm_bytes) return "";
  const bool is_short = *in.cluster.shm_bytes < need_bytes * in.job.nodes.max;
  return fmt::format("; /dev/shm here has {}{}", format_bytes(*in.cluster.shm_bytes),
                     is_short ? ", which is less: use fewer loader.workers" : "");
}

}  // namespace

PlanValue plan_cpus_per_node(const PlanInputs& in) {
  const uint64_t gpus = in.job.gpus_per_node;
  const uint64_t nodes = in.job.nodes.max;
  if (!in.runs_here() && in.job.pod.cpus)
    return known(*in.job.pod.cpus, "CPUs", "as pod.cpus says");
  if (!in.runs_here() && in.job.gpu.resource == kNoGpus) {
    return known(gpus, "CPUs", fmt::format("1 per process x {} processes without GPUs", gpus));
  }
  if (!in.runs_here()) {
    const uint64_t per_gpu =
        std::clamp(in.job.loader.workers.value_or(0), kMinCpusPerGpu, kMaxCpusPerGpu);
    return known(per_gpu * gpus, "CPUs",
                 fmt::format("{} per GPU x {} GPUs; with fewer than {} the loader starves the GPU",
                             per_gpu, gpus, kMinCpusPerGpu));
  }
  if (!in.cluster.cpus) return unknown("CPUs", "the number of CPUs of this machine cannot be read");
  return known(std::max<uint64_t>(1, *in.cluster.cpus / nodes), "CPUs",
               fmt::format("this machine has {} ({}){}", *in.cluster.cpus, in.cluster.cpus_from,
                           shared_by(nodes)));
}

PlanValue plan_memory_per_node(const PlanInputs& in) {
  const uint64_t nodes = in.job.nodes.max;
  if (!in.runs_here() && in.job.pod.memory_bytes) {
    return known(*in.job.pod.memory_bytes, "bytes", "as pod.memory says");
  }
  if (!in.runs_here() && in.job.gpu.resource == kNoGpus) {
    return known(kMemoryPerProcessBytes * in.job.gpus_per_node, "bytes",
                 fmt::format("4 GB per process x {} processes without GPUs", in.job.gpus_per_node));
  }
  if (!in.runs_here()) {
    return known(kMemoryPerGpuBytes * in.job.gpus_per_node, "bytes",
                 fmt::format("64 GB per GPU x {} GPUs", in.job.gpus_per_node));
  }
  if (!in.cluster.memory_bytes)
    return unknown("bytes", "the memory of this machine cannot be read");
  return known(*in.cluster.memory_bytes / nodes / kMiB * kMiB, "bytes",
               fmt::format("this machine has {} ({}){}", format_bytes(*in.cluster.memory_bytes),
                           in.cluster.memory_from, shared_by(nodes)));
}

PlanValue plan_loader_workers(const PlanInputs& in) {
  if (in.job.loader.workers) {
    return known(*in.job.loader.workers, "processes per rank", "as loader.workers says");
  }
  const auto cpus = in.plan.count("cpus_per_node");
  if (!cpus) return unknown("processes per rank", "needs cpus_per_node: set loader.workers");
  const uint64_t share = *cpus / in.job.gpus_per_node;
  return known(
      std::clamp<uint64_t>(share, 1, kMaxAutoWorkers), "processes per rank",
      fmt::format("the smaller of {} and {} / {}{}", kMaxAutoWorkers, counted(*cpus, "CPU", "CPUs"),
                  counted(in.job.gpus_per_node, "process", "processes"),
                  share == 0 ? ", at least 1" : ""));
}

PlanValue plan_prefetch(const PlanInputs& in) {
  return known(in.job.loader.prefetch, "batches per loader process",
               in.job.loader.prefetch == LoaderSpec{}.prefetch
                   ? "the default; more hides jitter and costs memory"
                   : "as loader.prefetch says");
}

PlanValue plan_shm(const PlanInputs& in) {
  if (in.job.loader.shm_bytes) {
    return known(*in.job.loader.shm_bytes, "bytes",
                 "as loader.shm says" + shm_here(in, *in.job.loader.shm_bytes));
  }
  const auto workers = in.plan.count("loader_workers");
  if (!workers) return unknown("bytes", "needs loader_workers: set loader.workers or loader.shm");
  const uint64_t processes = *workers * in.job.gpus_per_node;
  const uint64_t bytes = std::max(processes * kShmPerWorkerBytes, kMinShmBytes);
  return known(bytes, "bytes",
               fmt::format("16 GiB per 8 loader processes, {} of them on a node{}", processes,
                           shm_here(in, bytes)));
}

}  // namespace shanty
