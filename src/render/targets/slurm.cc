// A script for sbatch. Slurm's allocation is all or none by itself.
#include <fmt/format.h>

#include "render/gang.h"
#include "render/objects.h"
#include "render/pod.h"
#include "render/shell.h"
#include "render/target.h"

namespace shanty {
namespace {

constexpr uint64_t kMegabyte = 1u << 20;

void option(std::string& out, std::string_view why, const std::string& text) {
  if (!why.empty()) out += fmt::format("# {}\n", why);
  out += "#SBATCH " + text + "\n";
}

std::string options(const RenderContext& c) {
  std::string out;
  option(out, "", "--job-name=" + c.name);
  option(out, "", fmt::format("--nodes={}", c.nodes));
  option(out, "One task per node: it is the node's agent, which starts the ranks.",
         "--ntasks-per-node=1");
  if (c.job.gpu.resource != kNoGpus) {
    const std::string why =
        c.job.gpu.model.empty()
            ? ""
            : fmt::format("For {}: sites name models as in --gpus-per-node=a100:{}.",
                          c.job.gpu.model, c.processes);
    option(out, why, fmt::format("--gpus-per-node={}", c.processes));
  }
  option(out, "",
         fmt::format("--cpus-per-task={}", c.plan.count("cpus_per_node").value_or(c.processes)));
  if (const auto memory = c.plan.count("memory_per_node_bytes")) {
    option(out, "", fmt::format("--mem={}M", *memory / kMegabyte));
  }
  option(out, "The ranks get restart.grace to save before the time limit or a preemption.",
         fmt::format("--signal=TERM@{}", c.grace_s()));
  option(out, "A lost node puts the job back into the queue; it goes on from its checkpoint.",
         "--requeue");
  option(out, "", "--open-mode=append");
  option(out, "", "--output=%x-%j.log");
  if (!c.job.schedule.queue.empty()) option(out, "", "--partition=" + c.job.schedule.queue);
  if (!c.job.schedule.priority.empty()) option(out, "", "--qos=" + c.job.schedule.priority);
  if (!c.job.schedule.topology.empty() && c.nodes > 1) {
    option(out, "Near each other, if that is had within an hour.", "--switches=1@60");
  }
  return out;
}

// Everything the nodes share lies where the job was submitted: that must be on a shared file
// system.
std::string preparation(const RenderContext& c) {
  return fmt::format(R"(
set -euo pipefail
dir="$SLURM_SUBMIT_DIR/.shanty/{0}-$SLURM_JOB_ID"
mkdir -p "$dir"

cat >"$dir/job.yaml" <<'END_OF_JOB'
{1}END_OF_JOB

# The secret by which the nodes know each other; it stays the same when the job is requeued.
if [ ! -s "$dir/token" ]; then
  (umask 077 && head -c 32 /dev/urandom | od -An -vtx1 | tr -d ' \n' >"$dir/token")
fi
export SHANTY_TOKEN_FILE="$dir/token"

master=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# Jobs can share a node: each has ports of its own, below those that Linux gives to clients.
port=$((23456 + 2 * (SLURM_JOB_ID % 4096)))
)",
                     c.name, job_file_text(c.job));
}

std::string environment(const RenderContext& c) {
  std::string out;
  if (!c.job.network.interface.empty()) {
    out += fmt::format("export NCCL_SOCKET_IFNAME={0} GLOO_SOCKET_IFNAME={0}\n",
                       shell_word(c.job.network.interface));
  }
  if (c.job.network.rdma == false) out += "export NCCL_IB_DISABLE=1\n";
  return out;
}

std::string container(const RenderContext& c) {
  if (c.job.run.image.empty()) return "container=()\n";
  std::string mounts;
  for (const DataMount& data : c.job.data) {
    mounts += fmt::format(",{0}:{0}{1}", data.mount, data.read_only ? ":ro" : "");
  }
  const std::string& checkpoint = c.job.checkpoint.mount;
  if (!checkpoint.empty()) mounts += fmt::format(",{0}:{0}", checkpoint);
  return fmt::format(R"(
# run.image, where Slurm can run containers (pyxis and enroot); else the environment as it is. The
# image must have shanty in its PATH then.
container=()
if srun --help | grep -q -e --container-image; then
  container=(--container-image={} --container-workdir="$SLURM_SUBMIT_DIR"
    --container-mounts="$SLURM_SUBMIT_DIR:$SLURM_SUBMIT_DIR"{})
fi
)",
                     shell_word(c.job.run.image), mounts.empty() ? "" : shell_word(mounts));
}

std::string start(const RenderContext& c) {
  const std::string& mount = c.job.checkpoint.mount;
  const std::string run_dir = mount.empty() ? "\"$dir/run\""
                                            : fmt::format("{}/.shanty/runs/\"{}-$SLURM_JOB_ID\"",
                                                          shell_word(mount), c.name);
  const std::string place =
      c.nodes == 1 ? "" : " --one-log --master-addr=\"$master\" --master-port=\"$port\"";
  // Since 22.05 srun does not inherit --cpus-per-task.
  return fmt::format(R"(
# srun does not take over --cpus-per-task from sbatch since Slurm 22.05. SLURM_NODEID tells each
# agent which node it is.
exec srun --ntasks-per-node=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" --kill-on-bad-exit=1 \
  ${{container[@]+"${{container[@]}}"}} \
  shanty agent{} \
  --run-dir={} -- "$dir/job.yaml"
)",
                     place, run_dir);
}

Result<std::vector<Piece>> render(const RenderContext& c) {
  const std::string text =
      "#!/bin/bash\n" + options(c) + preparation(c) + environment(c) + container(c) + start(c);
  return std::vector<Piece>{
      {.stem = {}, .object = {}, .text = text, .file_name = c.name + ".sbatch"}};
}

}  // namespace

extern const RenderTarget kSlurmTarget = {
    .name = "slurm", .group = "", .kind = "", .plural = "", .gangs = no_gang, .render = render};

}  // namespace shanty
