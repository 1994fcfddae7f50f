#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shanty::check {

// Whether a group of pods fits into a cluster, and what would make it fit. Pure arithmetic on plain
// data: no network, no clock.

// Amounts by resource name: "cpu" in thousandths, "memory" in bytes, all others in units.
using Amounts = std::map<std::string, int64_t>;

struct Taint {
  std::string key;
  std::string value;
  std::string effect;  // NoSchedule, NoExecute, PreferNoSchedule
  friend auto operator<=>(const Taint&, const Taint&) = default;
};

struct Toleration {
  std::string key;  // empty with Exists: all
  bool exists = false;
  std::string value;
  std::string effect;  // empty: all
  friend bool operator==(const Toleration&, const Toleration&) = default;
};
bool tolerates(const std::vector<Toleration>& tolerations, const Taint& taint);

// A term of a required node affinity: label `key` In / NotIn / Exists / DoesNotExist / Gt / Lt.
struct LabelNeed {
  std::string key;
  std::string op = "In";
  std::vector<std::string> values;
  friend bool operator==(const LabelNeed&, const LabelNeed&) = default;
};
bool meets(const std::map<std::string, std::string>& labels, const LabelNeed& need);
// Terms of a node selector.
using NeedSets = std::vector<std::vector<LabelNeed>>;
// All needs of one of the sets; no sets: anything does.
bool meets_any(const std::map<std::string, std::string>& labels, const NeedSets& sets);
// A node's name among its labels, for terms that select by fields; no label can be called so.
inline constexpr const char* kNodeNameField = ".metadata.name";

// Required anti-affinity: no pod that it selects on a node with the same value of the label.
struct ApartTerm {
  std::string topology_key;
  std::optional<std::vector<LabelNeed>> selector;  // nothing: selects no pod
  std::vector<std::string> namespaces;             // empty: the pod's own
  bool all_namespaces = false;
};

// A topologySpreadConstraint with DoNotSchedule: in no value of the label more than `max_skew` pods
// above the value that has the fewest.
struct SpreadTerm {
  std::string topology_key;
  int64_t max_skew = 1;
  uint64_t min_domains = 0;
  bool honors_taints = false;  // values on tainted nodes do not count
  std::optional<std::vector<LabelNeed>> selector;
};

struct FitNode {
  std::string name;
  std::map<std::string, std::string> labels;
  std::vector<Taint> taints;
  bool cordoned = false;
  bool ready = true;
  Amounts allocatable;
};

struct FitPod {
  std::string k8s_namespace;
  std::string name;
  std::string owner;  // "PyTorchJob llm", the topmost that is known; "Pod x" when bare
  std::string node;   // empty: not placed
  Amounts requests;
  std::optional<int64_t> ends_unix_s;  // by a deadline
  std::map<std::string, std::string> labels;
  std::vector<ApartTerm> apart;
  int64_t priority = 0;
};

// On which nodes pods may run.
struct FitPlacement {
  NeedSets needs;
  std::vector<Toleration> tolerations;
  std::string topology_label;
  std::vector<NeedSets> volumes = {};  // from which nodes each of their volumes is reached
  friend bool operator==(const FitPlacement&, const FitPlacement&) = default;
};

// Pods that are alike.
struct FitGroup {
  std::string name;
  uint64_t pods = 1;
  Amounts per_pod;
  Amounts limits = {};                   // of a pod, for quotas
  size_t containers = 1;                 // of a pod
  std::vector<std::string> claims = {};  // PersistentVolumeClaims it mounts, sorted
  // Of other groups than the first: nothing, when they may run where its pods may.
  std::optional<FitPlacement> placement = std::nullopt;
};

struct FitRequest {
  std::vector<FitGroup> groups;  // one or more; the first is the one that may be made smaller
  uint64_t min_pods = 0;         // of the first group, when it can run with less; 0: no
  NeedSets needs;                // any of these sets; empty: any node
  std::vector<Toleration> tolerations;
  std::string topology_label;          // all pods on nodes with one value of it; empty: anywhere
  std::vector<NeedSets> volumes = {};  // from which nodes each volume of the pods is reached
  // Of the first group's pods.
  std::string k8s_namespace;
  std::map<std::string, std::string> labels;
  std::vector<ApartTerm> apart;
  std::vector<SpreadTerm> spread;
  int64_t priority = 0;
  bool preempts = true;  // the scheduler may take the room of pods of lower priority
};

// Why a node takes no pod of the request.
enum class NodeState {
  kOpen,      // it takes at least one
  kBusy,      // it would, were it empty
  kTooSmall,  // not even when empty
  kTainted,
  kCordoned,
  kNotReady,
  kOther,     // its labels are not those asked for
  kNoVolume,  // a volume of the pods is not reached from there
  kKeptFree,  // pods there, or these, want no such neighbours
};

struct NodeVerdict {
  NodeState state = NodeState::kOpen;
  uint64_t pods = 0;   // of the first group that fit now
  std::string lack;    // the resource that is short, for kBusy and kTooSmall
  Taint taint;         // for kTainted
  std::string keeper;  // for kKeptFree: an owner whose pods are in the way
};

// All pods of one owner.
struct Holder {
  std::string k8s_namespace;
  std::string owner;
  std::vector<std::string> pods;
  std::vector<std::string> nodes;  // sorted, without repeats
  Amounts holds;                   // on nodes that the request could use
  std::optional<int64_t> ends_unix_s;
  int64_t priority = 0;  // the highest of its pods
  friend bool operator==(const Holder&, const Holder&) = default;
};

enum class ChangeKind {
  kTolerate,     // tolerate `taints`
  kSmallerPods,  // ask for `amount` of `resource` per pod
  kOtherNodes,   // drop the label `label` from the selector
  kNoTopology,   // let pods be spread over values of the topology label
  kNoSpread,     // drop anti-affinity and spreading by the label `label`
  kFewerPods,    // `pods` instead of what is asked for
  kUncordon,     // `nodes`
  kFreeHolders,  // wait for `holders`, or stop them
  kOtherQueue,   // `label`; not of compute_fit, which knows no queues
};

struct Change {
  ChangeKind kind = ChangeKind::kFewerPods;
  double cost = 0;  // small changes first; see change_cost in fit.cc
  std::vector<Taint> taints;
  std::string resource;
  int64_t amount = 0;
  std::string label;
  uint64_t pods = 0;
  std::vector<std::string> nodes;
  std::vector<Holder> holders;
};

struct Fit {
  bool fits = false;
  uint64_t wanted = 0;             // pods of all groups
  uint64_t placed = 0;             // of them that fit now, in the best place
  std::string place;               // the value of the topology label where they do
  std::vector<NodeVerdict> nodes;  // as the nodes were given
  std::vector<Change> changes;     // each of them makes it fit; the smallest first
  std::vector<Holder> holders;     // who holds what on nodes the request could use
  // Of lower priority, and in the way: the scheduler would take their room. It is not taken for
  // free: `fits` knows nothing of it.
  std::vector<Holder> preempted;
  std::optional<int64_t>
      fits_unix_s;  // when running pods' deadlines let it fit; nothing: not known
};

// Each Change is the smallest of its kind: the fewest taints, nodes and (up to two, beyond that
// none that could be left out) holders, the most pods, the largest ask. Linear in nodes and pods
// but for the holders.
Fit compute_fit(const std::vector<FitNode>& nodes, const std::vector<FitPod>& pods,
                const FitRequest& request);

}  // namespace shanty::check
