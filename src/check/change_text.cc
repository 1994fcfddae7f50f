#include "check/change_text.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/units.h"
#include "check/objects.h"
#include "check/probe.h"

namespace shanty::check {
namespace {

constexpr size_t kMaxHolderLines = 8;

std::string taint_text(const Taint& taint) {
  return taint.key + (taint.value.empty() ? "" : "=" + taint.value) + ":" + taint.effect;
}

std::string scarce_of(const Workload& workload) {
  for (const auto& [name, amount] : workload.request.groups.front().per_pod) {
    if (amount > 0 && name.find('/') != std::string::npos) return name;
  }
  return "cpu";
}

std::string end_text(std::optional<int64_t> ends_unix_s, int64_t now_unix_s) {
  if (!ends_unix_s) return "no deadline";
  const int64_t left_s = std::max<int64_t>(0, *ends_unix_s - now_unix_s);
  return "ends within " + format_duration(static_cast<double>(left_s));
}

std::string holder_text(const Holder& holder, const std::string& scarce, int64_t now_unix_s) {
  const auto held = holder.holds.find(scarce);
  return fmt::format("{} of namespace {} ({} {} on {}; {})", holder.owner, holder.k8s_namespace,
                     amount_text(scarce, held == holder.holds.end() ? 0 : held->second), scarce,
                     joined(holder.nodes), end_text(holder.ends_unix_s, now_unix_s));
}

std::string_view state_text(NodeState state) {
  switch (state) {
    case NodeState::kOpen:
      return "open";
    case NodeState::kBusy:
      return "busy";
    case NodeState::kTooSmall:
      return "too small";
    case NodeState::kTainted:
      return "tainted";
    case NodeState::kCordoned:
      return "cordoned";
    case NodeState::kNotReady:
      return "not ready";
    case NodeState::kOther:
      return "of another kind";
    case NodeState::kNoVolume:
      return "out of reach of a volume";
    case NodeState::kKeptFree:
      return "kept free of such pods";
  }
  __builtin_unreachable();
}

}  // namespace

std::string pod_text(const Workload& workload) {
  std::vector<std::string> parts;
  for (const auto& [name, amount] : workload.request.groups.front().per_pod) {
    parts.push_back(amount_text(name, amount) + " " + name);
  }
  std::ranges::stable_partition(
      parts, [](const std::string& part) { return part.find('/') != std::string::npos; });
  return joined(parts);
}

std::string node_counts_text(const Fit& fit) {
  std::map<std::pair<NodeState, std::string>, size_t> counts;
  for (const NodeVerdict& verdict : fit.nodes) {
    const std::string detail = verdict.state == NodeState::kTainted    ? taint_text(verdict.taint)
                               : verdict.state == NodeState::kKeptFree ? verdict.keeper
                                                                       : verdict.lack;
    ++counts[{verdict.state, detail}];
  }
  std::string out = "nodes:";
  if (counts.empty()) return out + " none";
  bool first = true;
  for (const auto& [key, count] : counts) {
    out += fmt::format("{}{} {}", first ? " " : ", ", count, state_text(key.first));
    if (!key.second.empty()) out += " (" + key.second + ")";
    first = false;
  }
  return out;
}

std::string change_text(const Change& change, const Workload& workload, int64_t now_unix_s) {
  const FitRequest& request = workload.request;
  switch (change.kind) {
    case ChangeKind::kTolerate: {
      std::vector<std::string> taints;
      for (const Taint& taint : change.taints) taints.push_back(taint_text(taint));
      return "tolerate " + joined(taints) +
             ", if its owner lets you: the nodes that have it have room";
    }
    case ChangeKind::kSmallerPods:
      return fmt::format(
          "ask for {} {} per pod instead of {}: more is not free beside the rest",
          amount_text(change.resource, change.amount), change.resource,
          amount_text(change.resource, request.groups.front().per_pod.at(change.resource)));
    case ChangeKind::kOtherNodes:
      return "take nodes with another " + change.label + " as well: they have room";
    case ChangeKind::kNoTopology:
      return fmt::format(
          "let the pods be spread over several values of {}, at the price of "
          "slower communication",
          change.label);
    case ChangeKind::kNoSpread:
      return "drop the pods' required anti-affinity and spreading by " + change.label +
             ", or make it preferred: they have room beside each other and what runs";
    case ChangeKind::kFewerPods:
      return fmt::format("use {} instead of {}", counted(change.pods, "pod"),
                         request.groups.front().pods);
    case ChangeKind::kUncordon:
      return "have " + joined(change.nodes) + " uncordoned (kubectl uncordon " +
             change.nodes.front() + "), if its maintenance is over";
    case ChangeKind::kFreeHolders: {
      std::vector<std::string> holders;
      for (const Holder& holder : change.holders) {
        holders.push_back(holder_text(holder, scarce_of(workload), now_unix_s));
      }
      return "wait for the end of " + joined(holders);
    }
    case ChangeKind::kOtherQueue:
      return "use the queue " + change.label + ": it would admit the job now";
  }
  __builtin_unreachable();
}

std::vector<std::string> holder_lines(const Fit& fit, const Workload& workload,
                                      int64_t now_unix_s) {
  const std::string scarce = scarce_of(workload);
  std::vector<const Holder*> order;
  for (const Holder& holder : fit.holders) {
    if (holder.holds.contains(scarce)) order.push_back(&holder);
  }
  std::ranges::stable_sort(order, std::greater{},
                           [&](const Holder* holder) { return holder->holds.at(scarce); });
  std::vector<std::string> lines;
  for (const Holder* holder : order) {
    if (lines.size() == kMaxHolderLines) {
      lines.push_back(counted(order.size() - kMaxHolderLines, "more holder"));
      break;
    }
    lines.push_back("held by " + holder_text(*holder, scarce, now_unix_s));
  }
  return lines;
}

std::vector<std::string> preempted_lines(const Fit& fit, const Workload& workload,
                                         int64_t now_unix_s) {
  std::vector<std::string> lines;
  for (const Holder& holder : fit.preempted) {
    if (lines.size() == kMaxHolderLines) {
      lines.push_back(counted(fit.preempted.size() - kMaxHolderLines, "more owner"));
      break;
    }
    lines.push_back(fmt::format("{}, of priority {}",
                                holder_text(holder, scarce_of(workload), now_unix_s),
                                holder.priority));
  }
  return lines;
}

std::string when_text(const Fit& fit, int64_t now_unix_s) {
  if (fit.fits) return "now";
  if (!fit.fits_unix_s) {
    return "cannot be known: not enough of what runs has a deadline";
  }
  const int64_t left_s = std::max<int64_t>(0, *fit.fits_unix_s - now_unix_s);
  return "within " + format_duration(static_cast<double>(left_s)) +
         ", by the deadlines of what runs";
}

}  // namespace shanty::check
