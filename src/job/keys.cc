#include "job/keys.h"

#include <type_traits>

namespace shanty {
namespace {

constexpr double kMaxCount = 1e15;
constexpr double kDayS = 86400;

#define AT(field) [](Job& job) -> Slot { return &job.field; }
#define NOWHERE [](Job&) -> Slot { return std::monostate{}; }

using enum KeyType;

// clang-format off: a row is a line or two
constexpr Key kKeys[] = {
    {"job", kText, AT(name), {}, "the script's name",
     "Name of the job: 1 to 63 letters, digits, dots, dashes and underscores."},

    {"run", kSection, NOWHERE, {}, "", "What each rank runs."},
    {"run.script", kText, AT(run.script), {}, "",
     "Python file to run, seen from run.working_dir. This or run.module is required."},
    {"run.module", kText, AT(run.module), {}, "",
     "Python module to run instead, as with python -m."},
    {"run.args", kTextList, AT(run.args), {}, "", "Arguments of the script."},
    {"run.python", kText, AT(run.python), {}, "python3 of the environment", "Python interpreter."},
    {"run.no_python", kFlag, AT(run.no_python), {}, "",
     "run.script is a program of its own, not a Python file."},
    {"run.framework", kChoice, AT(run.framework), {}, "",
     "How ranks share the model: ddp (a copy each), fsdp (shards), other."},
    {"run.image", kText, AT(run.image), {}, "none: run on this machine",
     "Container image for a cluster."},
    {"run.env", kTextMap, AT(run.env), {}, "", "Environment variables added for each rank."},
    {"run.working_dir", kText, AT(run.working_dir), {}, "where shanty was started",
     "Directory the ranks start in."},

    {"nodes", kNodes, AT(nodes), {1, 100'000}, "",
     "Number of nodes. min and max must be equal: elastic worlds are not supported yet."},
    {"gpus_per_node", kCount, AT(gpus_per_node), {1, 1024}, "",
     "Worker processes on each node: one per GPU, or plain processes on CPU."},

    {"gpu", kSection, NOWHERE, {}, "", "The GPUs wanted."},
    {"gpu.model", kText, AT(gpu.model), {}, "any", "GPU model, for example a100-80g."},
    {"gpu.resource", kText, AT(gpu.resource), {}, "",
     "Resource of a cluster that one process takes one of: nvidia.com/gpu, nvidia.com/mig-1g.10gb; "
     "none: processes on CPUs."},
    {"gpu.device_class", kText, AT(gpu.device_class), {}, "none",
     "DeviceClass of a cluster with dynamic resource allocation, as gpu.nvidia.com: pods get their "
     "GPUs by a claim for devices of it, instead of by gpu.resource."},

    {"network", kSection, NOWHERE, {}, "", "The network between nodes."},
    {"network.rdma", kFlagOrAuto, AT(network.rdma), {}, "",
     "Whether InfiniBand or RoCE is to be used."},
    {"network.rdma_resource", kText, AT(network.rdma_resource), {}, "",
     "Resource of a cluster that gives a pod its RDMA devices, as rdma/hca or "
     "vpc.amazonaws.com/efa=32; its name is the cluster's choice."},
    {"network.networks", kTextList, AT(network.networks), {}, "",
     "Second networks of the pods: NetworkAttachmentDefinitions, as NAME or NAMESPACE/NAME."},
    {"network.interface", kTextOrAuto, AT(network.interface), {}, "",
     "Network interface that carries the job."},
    {"network.host_network", kFlagOrAuto, AT(network.host_network), {}, "",
     "Whether pods use the node's network."},
    {"network.bandwidth", kBandwidth, AT(network.bandwidth_bytes_per_s), {1, 1e18}, "not known",
     "Bandwidth each rank reaches towards the others."},

    {"batch", kSection, NOWHERE, {}, "", "Batch size and learning rate."},
    {"batch.per_gpu", kCount, AT(batch.per_gpu), {1, 1e6}, "not known",
     "Samples per rank and forward pass."},
    {"batch.base_lr", kNumber, AT(batch.base_lr), {1e-30, 1e6}, "not known",
     "Learning rate that is right for a global batch of batch.base_batch."},
    {"batch.base_batch", kCount, AT(batch.base_batch), {1, kMaxCount}, "not known",
     "Global batch that batch.base_lr belongs to."},
    {"batch.scaling", kChoice, AT(batch.scaling), {}, "",
     "How the learning rate follows the batch; auto is linear up to 4096 and sqrt above."},
    {"batch.warmup", kShareOrCount, AT(batch.warmup), {0, kMaxCount}, "",
     "Warm-up of the learning rate: a share of the steps, or a number of steps."},
    {"batch.accumulation", kCount, AT(batch.accumulation), {1, 10'000}, "",
     "Forward passes per optimizer step."},

    {"steps", kCount, AT(steps), {1, kMaxCount}, "not known", "Optimizer steps of the whole run."},

    {"loader", kSection, NOWHERE, {}, "", "The data loader of each rank."},
    {"loader.workers", kCountOrAuto, AT(loader.workers), {0, 512}, "",
     "Loader processes per rank; auto is CPUs per rank, at most 8."},
    {"loader.prefetch", kCount, AT(loader.prefetch), {1, 1024}, "",
     "Batches each loader process keeps ready."},
    {"loader.shm", kBytesOrAuto, AT(loader.shm_bytes), {1u << 20, 1e15}, "",
     "Shared memory per node; auto is 2 GiB per loader process."},

    {"code", kSection, NOWHERE, {}, "", "How the script gets into the pods of a cluster."},
    {"code.from", kChoice, AT(code.from), {}, "",
     "configmap (the script and code.files, together below 900 KiB), git, image (it is in there); "
     "auto is git with code.git, configmap for a script that is here, else image."},
    {"code.files", kTextList, AT(code.files), {}, "",
     "Files that go along with the script in the ConfigMap."},
    {"code.git", kText, AT(code.git), {}, "", "Git repository that each pod clones."},
    {"code.revision", kText, AT(code.revision), {}, "the default branch",
     "Commit, tag or branch; only a commit is the same code after a restart."},
    {"code.git_image", kText, AT(code.git_image), {}, "", "Image with git for the clone."},
    {"code.secret", kText, AT(code.secret), {}, "",
     "Secret whose key .git-credentials opens the repository."},

    {"data", kList, AT(data), {}, "", "Storage the job reads."},
    {"data[].claim", kText, AT(data.back().claim), {}, "",
     "PersistentVolumeClaim with the data. Required."},
    {"data[].mount", kPath, AT(data.back().mount), {}, "", "Where it appears. Required."},
    {"data[].read_only", kFlag, AT(data.back().read_only), {}, "",
     "Mounted without the right to write."},
    {"data[].stage", kPath, AT(data.back().stage), {}, "none: read in place",
     "Not used yet: directory of the node's own disk to copy the data to before the start."},

    {"checkpoint", kSection, NOWHERE, {}, "", "Where the job saves its state, and how often."},
    {"checkpoint.claim", kText, AT(checkpoint.claim), {}, "",
     "PersistentVolumeClaim all nodes write to."},
    {"checkpoint.mount", kPath, AT(checkpoint.mount), {}, "",
     "Where the claim appears. Required with a claim."},
    {"checkpoint.dir", kText, AT(checkpoint.dir), {}, "the mount",
     "Directory of the checkpoints, inside the mount where there is one; `shanty.Checkpointer()` takes it."},
    {"checkpoint.size", kBytesOrAuto, AT(checkpoint.size_bytes), {1u << 20, 1e18}, "",
     "Size of the claim, which render then writes too; auto: the claim is there."},
    {"checkpoint.storage_class", kText, AT(checkpoint.storage_class), {}, "of the cluster",
     "Storage class of that claim; several nodes need one that can do ReadWriteMany."},
    {"checkpoint.every", kDurationOrAuto, AT(checkpoint.every_s), {1, 365 * kDayS}, "",
     "Time between checkpoints; auto weighs the cost of one against the failures expected."},
    {"checkpoint.keep", kCount, AT(checkpoint.keep), {1, 100'000}, "", "Latest checkpoints kept."},
    {"checkpoint.milestones", kCount, AT(checkpoint.milestones), {0, kMaxCount}, "",
     "Every so many steps a checkpoint is kept for good; 0: none."},
    {"checkpoint.cost", kDuration, AT(checkpoint.cost_s), {1e-3, kDayS}, "not known",
     "Training time one checkpoint costs, as measured."},

    {"schedule", kSection, NOWHERE, {}, "", "Where and when a cluster runs the job."},
    {"schedule.namespace", kText, AT(schedule.k8s_namespace), {}, "of the context",
     "Kubernetes namespace."},
    {"schedule.queue", kText, AT(schedule.queue), {}, "", "Queue of the scheduler."},
    {"schedule.gang", kFlagOrAuto, AT(schedule.gang), {}, "",
     "Whether all pods start together or not at all."},
    {"schedule.topology", kText, AT(schedule.topology), {}, "",
     "Level within which nodes should lie, for example rack."},
    {"schedule.priority", kText, AT(schedule.priority), {}, "of the cluster", "Priority class."},
    {"schedule.node_selector", kTextMap, AT(schedule.node_selector), {}, "",
     "Labels that nodes must have."},
    {"schedule.tolerations", kTextList, AT(schedule.tolerations), {}, "",
     "Taints the pods put up with, as KEY=VALUE:EFFECT, KEY:EFFECT or KEY."},
    {"schedule.ttl", kDuration, AT(schedule.ttl_s), {0, 365 * kDayS}, "",
     "How long a cluster keeps the objects of a job that has ended."},

    {"pod", kSection, NOWHERE, {}, "", "The pod that is one node of the job on a cluster."},
    {"pod.cpus", kCountOrAuto, AT(pod.cpus), {1, 4096}, "",
     "CPUs of a pod; auto is 8 to 16 per GPU, 1 per process without GPUs."},
    {"pod.memory", kBytesOrAuto, AT(pod.memory_bytes), {64u << 20, 1e15}, "",
     "Memory of a pod, shared memory included; auto is 64 GB per GPU, 4 GB per process without."},
    {"pod.user", kCount, AT(pod.user), {0, 4294967294.0}, "",
     "User id of the containers; 0 is root, which restricted namespaces refuse."},
    {"pod.service_account", kText, AT(pod.service_account), {}, "none",
     "Service account, for scripts that ask the cluster themselves."},
    {"pod.pull_policy", kChoice, AT(pod.pull_policy), {}, "", "When nodes pull the image."},
    {"pod.pull_secrets", kTextList, AT(pod.pull_secrets), {}, "",
     "Secrets that open the image's registry."},
    {"pod.labels", kTextMap, AT(pod.labels), {}, "", "Labels added to all objects."},
    {"pod.annotations", kTextMap, AT(pod.annotations), {}, "", "Annotations added to the pods."},
    {"pod.shanty_image", kText, AT(pod.shanty_image), {}, "",
     "Image that holds shanty; none: run.image has it in its PATH."},

    {"restart", kSection, NOWHERE, {}, "", "What happens when something dies."},
    {"restart.max", kCount, AT(restart.max), {0, 1e6}, "",
     "Restarts allowed in restart.window before the job is given up."},
    {"restart.window", kDuration, AT(restart.window_s), {1, 365 * kDayS}, "",
     "Time in which restarts are counted."},
    {"restart.warm", kFlag, AT(restart.warm), {}, "",
     "Not used yet: a process per rank that has torch imported, for quick restarts."},
    {"restart.hang_after", kDurationOrAuto, AT(restart.hang_after_s), {1, 30 * kDayS}, "",
     "Not used yet: time without a step after which the job counts as hung."},
    {"restart.grace", kDuration, AT(restart.grace_s), {0, kDayS}, "",
     "Time between SIGTERM and SIGKILL."},
    {"restart.rejoin", kDuration, AT(restart.rejoin_s), {1, 30 * kDayS}, "",
     "How long a missing node is waited for."},

    {"failures", kSection, NOWHERE, {}, "", "How often the job is expected to fail."},
    {"failures.per_day", kNumber, AT(failures.per_day), {1e-6, 1e5}, "not known",
     "Failures of the whole job per day."},
    {"failures.mtbf", kDuration, AT(failures.mtbf_s), {1, 100 * 365 * kDayS}, "not known",
     "Mean time between failures of the whole job, instead of failures.per_day."},

    {"model", kSection, NOWHERE, {}, "", "The model, for what follows from its size."},
    {"model.params", kNumber, AT(model.params), {1, 1e15}, "not known", "Number of parameters."},
    {"model.dtype", kChoice, AT(model.dtype), {}, "",
     "Type of the parameters, and so of the gradients exchanged."},
    {"model.optimizer", kChoice, AT(model.optimizer), {}, "", "The optimizer."},
};
// clang-format on

#undef AT
#undef NOWHERE

constexpr std::string_view kFrameworks[] = {"ddp", "fsdp", "other"};
constexpr std::string_view kScalings[] = {"auto", "linear", "sqrt", "none"};
constexpr std::string_view kDtypes[] = {"fp32", "bf16", "fp16"};
constexpr std::string_view kOptimizers[] = {"adamw", "adam", "sgd", "other"};
constexpr std::string_view kCodeSources[] = {"auto", "configmap", "git", "image"};
constexpr std::string_view kPullPolicies[] = {"IfNotPresent", "Always", "Never"};

std::string_view section_of(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == path.npos ? std::string_view{} : path.substr(0, dot);
}

}  // namespace

std::span<const Key> job_keys() { return kKeys; }

std::string_view leaf_of(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == path.npos ? path : path.substr(dot + 1);
}

std::vector<const Key*> keys_below(std::string_view section) {
  std::vector<const Key*> found;
  for (const Key& key : kKeys) {
    if (section_of(key.path) == section) found.push_back(&key);
  }
  return found;
}

std::span<const std::string_view> choice_names(Framework) { return kFrameworks; }
std::span<const std::string_view> choice_names(LrScaling) { return kScalings; }
std::span<const std::string_view> choice_names(Dtype) { return kDtypes; }
std::span<const std::string_view> choice_names(Optimizer) { return kOptimizers; }
std::span<const std::string_view> choice_names(CodeSource) { return kCodeSources; }
std::span<const std::string_view> choice_names(PullPolicy) { return kPullPolicies; }

std::span<const std::string_view> choice_names(const Slot& slot) {
  return std::visit(
      [](auto field) -> std::span<const std::string_view> {
        using Field = std::remove_pointer_t<decltype(field)>;
        if constexpr (std::is_enum_v<Field>) {
          return choice_names(*field);
        } else {
          return {};
        }
      },
      slot);
}

}  // namespace shanty
