#include "logs/events/rows.h"

namespace shanty {
namespace {

// What kernels, drivers, kubelets and schedulers print.
constexpr EventRow kRows[] = {
    {"xid", kCause, "Xid", R"~(Xid \(PCI:(?P<bus>[0-9A-Fa-f:.]+)\): (?P<xid>\d+)(?:, (?P<what>.*))?)~"},
    {"mce", kCause, "Machine check events logged", ""},
    {"oom_invoked", kCause, "invoked oom-killer", R"~((?P<task>\S+) invoked oom-killer)~"},
    {"oom_constraint", kCause, "oom-kill:constraint=", R"~(constraint=(?P<constraint>CONSTRAINT_\w+).*task=(?P<task>[^,]+),pid=(?P<victim>\d+))~"},
    {"oom_killed", kCause, "Killed process", R"~((?P<scope>Memory cgroup out of memory|Out of memory): Killed process (?P<victim>\d+) \((?P<task>[^)]+)\)(?:.*anon-rss:(?P<rss_kb>\d+)kB)?)~"},
    {"oom_count", kCause, "oom_kill ", R"~(\boom_kill (?P<n>[1-9]\d*))~"},
    {"hung_task", kCause, " blocked for more than", R"~(task (?P<task>[^:]+):(?P<victim>\d+) blocked for more than (?P<seconds>\d+) seconds)~"},
    {"d_state", kCause, "folio_wait_bit", R"~((?P<wchan>folio_wait_bit\w*))~"},
    {"d_state", kCause, "rpc_wait_bit", R"~((?P<wchan>rpc_wait_bit\w*))~"},
    {"nfs_down", kCause, "not responding", R"~(nfs: server (?P<server>\S+) not responding)~"},
    {"lustre", kCause, "LustreError", R"~(LustreError:(?P<what>.*))~"},
    {"lustre", kCause, "was lost; in progress operations using this service will wait", R"~((?P<what>Connection to \S+))~"},
    {"link_down", kCause, "ink is down", R"~((?P<ifc>\w+)(?:: NIC)? [Ll]ink is [Dd]own)~"},
    {"link_down", kCause, "Link down", R"~((?P<ifc>[\w.-]+): Link down)~"},
    {"link_down", kCause, "lost carrier", R"~((?P<ifc>[\w.-]+): [Ll]ost carrier)~"},
    {"efa_reg_mr", kCause, "REG_MR", R"~(efa_\w+: Failed to process command REG_MR.*err (?P<error>-?\d+))~"},
    {"sched_failed", kCause, "nodes are available:", R"~((?P<what>\d+/\d+ nodes are available: .*))~"},
    {"gang_wait", kCause, "gang unschedulable", R"~((?P<pending>\d+)/(?P<total>\d+) tasks in gang unschedulable(?:: (?P<what>.*))?)~"},
    {"gang_wait", kCause, "couldn't assign flavors", R"~(couldn't assign flavors to pod set (?P<set>\S+): (?P<what>.*))~"},
    {"gang_wait", kCause, "insufficient quota", R"~((?P<what>insufficient (?:unused )?quota .*))~"},
    {"gang_wait", kCause, "insufficient unused quota", R"~((?P<what>insufficient (?:unused )?quota .*))~"},
    {"gang_wait", kCause, "pod group is not ready", R"~((?P<what>pod group is not ready.*))~"},
    {"quota", kCause, "exceeded quota", R"~(exceeded quota: (?P<what>.*))~"},
    {"image_pull", kCause, "Failed to pull image", R"~(Failed to pull image "?(?P<image>[^"\s]+)"?: (?P<what>.*))~"},
    {"image_pull", kCause, "ImagePullBackOff", R"~((?P<what>ImagePullBackOff))~"},
    {"image_pull", kCause, "ErrImagePull", R"~((?P<what>ErrImagePull))~"},
    {"image_pull", kCause, "toomanyrequests", R"~((?P<what>toomanyrequests.*))~"},
    {"image_pull", kCause, "InvalidImageName", R"~((?P<what>InvalidImageName))~"},
    {"exec_format", kCause, "exec format error", ""},
    {"mount_failed", kCause, "MountVolume.", R"~((?P<what>MountVolume\.\w+ failed for volume "(?P<volume>[^"]+)".*))~"},
    {"mount_failed", kCause, "Unable to attach or mount volumes", R"~(unmounted volumes=\[(?P<volume>[^\]]*)\])~"},
    {"mount_failed", kCause, "Multi-Attach error", R"~(volume "(?P<volume>[^"]+)")~"},
    {"mount_failed", kCause, "persistentvolumeclaim", R"~(persistentvolumeclaim "(?P<volume>[^"]+)" not found)~"},
    {"config_missing", kCause, "CreateContainerConfigError", R"~((?P<what>CreateContainerConfigError.*))~"},
    {"sandbox_failed", kCause, "FailedCreatePodSandBox", R"~((?P<what>FailedCreatePodSandBox.*))~"},
    {"sandbox_failed", kCause, "failed to set up sandbox", R"~((?P<what>failed to set up sandbox.*))~"},
    {"evicted", kCause, "The node was low on resource", R"~(low on resource: (?P<resource>[\w-]+)\.(?:.*Container (?P<container>\S+) was using (?P<using>\S+?),)?)~"},
    {"evicted", kCause, "ephemeral local storage usage exceeds", R"~((?P<resource>ephemeral)[ -]local storage usage exceeds)~"},
    {"oomkilled", kCause, "OOMKilled", ""},
    {"disruption", kCause, "DisruptionTarget", R"~((?P<what>DisruptionTarget))~"},
    {"disruption", kCause, "PreemptionByScheduler", R"~((?P<what>PreemptionByScheduler))~"},
    {"disruption", kCause, "DeletionByTaintManager", R"~((?P<what>DeletionByTaintManager))~"},
    {"disruption", kCause, "EvictionByEvictionAPI", R"~((?P<what>EvictionByEvictionAPI))~"},
    {"disruption", kCause, "TerminationByKubelet", R"~((?P<what>TerminationByKubelet))~"},
    {"disruption", kCause, "Preempted", R"~((?P<what>Preempted (?:by .*|in order to .*)?))~"},
    {"disruption", kCause, "TaintManagerEviction", R"~((?P<what>TaintManagerEviction.*))~"},
    {"disruption", kCause, "kubernetes-pod-termination", R"~((?:Instance (?P<who>\S+) .*)?(?P<what>kubernetes-pod-termination))~"},
    {"disruption", kCause, "spot instance", R"~((?i)(?P<what>spot instance .*(?:interrupt|reclaim|terminat)\w*))~"},
    {"node_not_ready", kCause, "NodeNotReady", R"~((?P<what>NodeNotReady.*))~"},
    {"liveness", kCause, "iveness probe failed", R"~((?P<what>[Ll]iveness probe failed.*))~"},
    {"admission_gpu", kCause, "requested number of devices unavailable", R"~(unavailable for (?P<resource>\S+?)\. Requested: (?P<wanted>\d+), Available: (?P<free>\d+))~"},
    {"gpu_zero", kFact, "nvidia.com/gpu", R"~(^ *nvidia\.com/gpu: +(?P<n>0)\b)~"},
    {"istio", kFact, "istio", R"~((?P<what>istio-(?:proxy|init|validation)|sidecar\.istio\.io))~"},
    {"permission", kFatal, "Operation not permitted", R"~(connect.*Operation not permitted)~"},
    {"plugin_none", kFact, "device-plugin", R"~((?P<name>[\w-]*device-plugin[\w-]*) +(?P<desired>0) +\d+ +\d+)~"},
};

}  // namespace

std::span<const EventRow> machine_rows() { return kRows; }

}  // namespace shanty
