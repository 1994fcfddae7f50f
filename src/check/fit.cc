#include "check/fit.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <span>
#include <unordered_map>

#include "check/fit_space.h"

namespace shanty::check {
namespace {

constexpr size_t kMaxPairHolders = 150;  // all pairs of that many are tried
// Where nothing tells before which cannot do:
constexpr size_t kMaxPairsUnbound = 40;
constexpr size_t kMaxSinglesUnbound = 1000;
constexpr double kSmallestShare = 0.25;  // of a pod's CPU or memory that is worth proposing
constexpr int64_t kCpuStep = 1000;
constexpr int64_t kMemoryStep = int64_t{1} << 30;
// Taints that say what a node is, not whom it is for.
constexpr std::string_view kSystemTaints[] = {"node.kubernetes.io/", "node-role.kubernetes.io/",
                                              "node.cloudprovider.kubernetes.io/"};

bool is_system(const Taint& taint) {
  return std::ranges::any_of(kSystemTaints, [&](auto p) { return taint.key.starts_with(p); });
}

// What the user can do in the job file is smaller than what others must do for him; losing nothing
// is smaller than losing something.
double change_cost(const Change& change, const FitRequest& request) {
  switch (change.kind) {
    case ChangeKind::kTolerate:
      return static_cast<double>(change.taints.size());
    case ChangeKind::kSmallerPods:
      return 2;
    case ChangeKind::kOtherNodes:
      return 3;
    case ChangeKind::kNoTopology:
      return 3.5;
    case ChangeKind::kNoSpread:
      return 3.6;
    case ChangeKind::kFewerPods: {
      if (request.min_pods > 0 && change.pods >= request.min_pods) return 0;
      const auto asked = static_cast<double>(request.groups.front().pods);
      return 4 + 8 * (asked - static_cast<double>(change.pods)) / asked;
    }
    case ChangeKind::kUncordon:
      return 4 + static_cast<double>(change.nodes.size());
    case ChangeKind::kFreeHolders:
      return 6 + static_cast<double>(change.holders.size());
    case ChangeKind::kOtherQueue:
      return 1;
  }
  __builtin_unreachable();
}

// The search for changes, on one view of the cluster.
class Search {
 public:
  Search(const std::vector<FitNode>& nodes, const std::vector<FitPod>& pods,
         const FitRequest& request)
      : nodes_(nodes),
        pods_(pods),
        request_(request),
        space_(nodes, pods, request),
        now_(space_.neighbours().state_without({})) {}

  Fit run() {
    const FitSpace::Placed placed = space_.place();
    Fit fit{.fits = placed.all, .placed = placed.pods};
    for (const FitGroup& group : request_.groups) fit.wanted += group.pods;
    missing_ = fit.wanted - fit.placed;
    if (!request_.topology_label.empty() && placed.pods > 0) {
      fit.place = space_.domain_name(placed.domain);
    }
    for (size_t i = 0; i < nodes_.size(); ++i) fit.nodes.push_back(judge(i));
    gather_holders();
    fit.holders = holders_;
    if (fit.fits) return fit;
    tolerate();
    smaller_pods();
    other_nodes();
    no_topology();
    no_spread();
    fewer_pods();
    uncordon();
    free_holders();
    for (Change& change : changes_) change.cost = change_cost(change, request_);
    std::ranges::stable_sort(changes_, {}, &Change::cost);
    fit.changes = std::move(changes_);
    fit.preempted = preempted();
    fit.fits_unix_s = known_time();
    return fit;
  }

 private:
  NodeVerdict judge(size_t i) const {
    const FitSpace::Node& node = space_.node(i);
    NodeVerdict verdict;
    if (!node.labels_match || space_.domain_of(i) == FitSpace::kNoDomain) {
      verdict.state = NodeState::kOther;
    } else if (!node.reaches_volumes) {
      verdict.state = NodeState::kNoVolume;
    } else if (space_.empty_slots(i) == 0) {
      verdict.state = NodeState::kTooSmall;
      verdict.lack = space_.lack(i, true);
    } else if (!nodes_[i].ready) {
      verdict.state = NodeState::kNotReady;
    } else if (nodes_[i].cordoned) {
      verdict.state = NodeState::kCordoned;
    } else if (!node.taints.empty()) {
      verdict.state = NodeState::kTainted;
      verdict.taint = node.taints.front();
    } else if (space_.neighbours().is_kept_free(now_, i)) {
      verdict.state = NodeState::kKeptFree;
      const size_t keeper = space_.neighbours().keeper_of(i);
      if (keeper < pods_.size()) verdict.keeper = pods_[keeper].owner;
    } else if ((verdict.pods = space_.slots(i)) == 0) {
      verdict.state = NodeState::kBusy;
      verdict.lack = space_.lack(i, false);
    }
    return verdict;
  }

  std::vector<char> usable_where(const std::function<bool(size_t)>& usable) const {
    std::vector<char> out(nodes_.size(), 0);
    for (size_t i = 0; i < nodes_.size(); ++i) out[i] = usable(i) ? 1 : 0;
    return out;
  }

  bool fits_with(FitSpace::Variation variation) const { return space_.place(variation).all; }

  // --- in the user's hands ---

  void tolerate() {
    std::set<Taint> taints;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const FitSpace::Node& node = space_.node(i);
      if (!node.suits() || !node.schedulable) continue;
      for (const Taint& taint : node.taints) {
        if (!is_system(taint)) taints.insert(taint);
      }
    }
    const auto fits_tolerating = [&](const std::set<Taint>& chosen) {
      return fits_with({.usable = usable_where([&](size_t i) {
                          const FitSpace::Node& node = space_.node(i);
                          return node.suits() && node.schedulable &&
                                 std::ranges::all_of(node.taints, [&](const Taint& taint) {
                                   return chosen.contains(taint);
                                 });
                        })});
    };
    for (const Taint& taint : taints) {
      if (!fits_tolerating({taint})) continue;
      changes_.push_back({.kind = ChangeKind::kTolerate, .taints = {taint}});
      return;
    }
    if (taints.size() < 2 || !fits_tolerating(taints)) return;
    std::set<Taint> needed = taints;
    for (const Taint& taint : taints) {
      needed.erase(taint);
      if (!fits_tolerating(needed)) needed.insert(taint);
    }
    changes_.push_back({.kind = ChangeKind::kTolerate, .taints = {needed.begin(), needed.end()}});
  }

  bool fits_asking(const std::string& resource, int64_t amount) const {
    FitRequest smaller = request_;
    smaller.groups.front().per_pod[resource] = amount;
    return fits_with({.request = &smaller});
  }

  void smaller_pods() {
    for (const auto& [resource, step] :
         {std::pair<std::string, int64_t>{"cpu", kCpuStep}, {"memory", kMemoryStep}}) {
      const auto& per_pod = request_.groups.front().per_pod;
      const auto asked = per_pod.find(resource);
      if (asked == per_pod.end() || asked->second <= step) continue;
      const auto least = static_cast<int64_t>(static_cast<double>(asked->second) * kSmallestShare);
      int64_t low = std::max<int64_t>(1, (least + step - 1) / step);  // in steps
      int64_t high = (asked->second - 1) / step;
      if (low > high || !fits_asking(resource, low * step)) continue;
      while (low < high) {
        const int64_t middle = low + (high - low + 1) / 2;
        fits_asking(resource, middle * step) ? low = middle : high = middle - 1;
      }
      changes_.push_back(
          {.kind = ChangeKind::kSmallerPods, .resource = resource, .amount = low * step});
    }
  }

  void other_nodes() {
    std::set<std::string> labels;
    for (const auto& set : request_.needs) {
      for (const LabelNeed& need : set) labels.insert(need.key);
    }
    for (const std::string& label : labels) {
      FitRequest looser = request_;
      for (auto& set : looser.needs) {
        std::erase_if(set, [&](const LabelNeed& need) { return need.key == label; });
      }
      const FitSpace space(nodes_, pods_, looser);
      if (space.place().all) {
        changes_.push_back({.kind = ChangeKind::kOtherNodes, .label = label});
      }
    }
  }

  void no_topology() {
    if (request_.topology_label.empty() || !fits_with({.any_place = true})) return;
    changes_.push_back({.kind = ChangeKind::kNoTopology, .label = request_.topology_label});
  }

  void no_spread() {
    std::set<std::string> labels;
    for (const ApartTerm& term : request_.apart) labels.insert(term.topology_key);
    for (const SpreadTerm& term : request_.spread) labels.insert(term.topology_key);
    for (const std::string& label : labels) {
      FitRequest looser = request_;
      const auto is_of_it = [&](const auto& term) { return term.topology_key == label; };
      std::erase_if(looser.apart, is_of_it);
      std::erase_if(looser.spread, is_of_it);
      const FitSpace space(nodes_, pods_, looser);
      if (space.place().all) changes_.push_back({.kind = ChangeKind::kNoSpread, .label = label});
    }
  }

  void fewer_pods() {
    FitRequest fewer = request_;
    uint64_t low = 0;
    uint64_t high = request_.groups.front().pods - 1;
    while (low < high) {
      fewer.groups.front().pods = low + (high - low + 1) / 2;
      fits_with({.request = &fewer}) ? low = fewer.groups.front().pods
                                     : high = fewer.groups.front().pods - 1;
    }
    if (low > 0) changes_.push_back({.kind = ChangeKind::kFewerPods, .pods = low});
  }

  // --- in the hands of others ---

  void uncordon() {
    std::map<size_t, std::vector<size_t>> by_domain;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const FitSpace::Node& node = space_.node(i);
      const bool useful = node.suits() && node.taints.empty() && nodes_[i].cordoned &&
                          nodes_[i].ready && space_.slots(i) > 0;
      if (useful && space_.domain_of(i) != FitSpace::kNoDomain) {
        by_domain[space_.domain_of(i)].push_back(i);
      }
    }
    std::vector<size_t> best;
    for (auto& [domain, cordoned] : by_domain) {
      std::ranges::stable_sort(cordoned, std::greater{}, [&](size_t i) { return space_.slots(i); });
      const auto fits_with_these = [&](std::span<const size_t> uncordoned) {
        std::vector<char> usable = usable_where([&](size_t i) { return space_.node(i).usable(); });
        for (const size_t i : uncordoned) usable[i] = 1;
        return fits_with({.usable = std::move(usable)});
      };
      const auto fits_with_first = [&](size_t count) {
        return fits_with_these(std::span(cordoned).first(count));
      };
      if (!fits_with_first(cordoned.size())) continue;
      size_t low = 1;
      size_t high = cordoned.size();
      while (low < high) {
        const size_t middle = low + (high - low) / 2;
        fits_with_first(middle) ? high = middle : low = middle + 1;
      }
      std::vector<size_t> chosen(cordoned.begin(),
                                 cordoned.begin() + static_cast<std::ptrdiff_t>(low));
      // Where pods are spread, the largest nodes are not always those that are needed.
      if (space_.neighbours().any()) leave_out(chosen, fits_with_these);
      if (best.empty() || chosen.size() < best.size()) best = std::move(chosen);
    }
    if (best.empty()) return;
    Change change{.kind = ChangeKind::kUncordon};
    for (const size_t i : best) change.nodes.push_back(nodes_[i].name);
    std::ranges::sort(change.nodes);
    changes_.push_back(std::move(change));
  }

  // Takes away what is not needed, the last first, until nothing more can go.
  template <typename Fits>
  static void leave_out(std::vector<size_t>& chosen, Fits fits) {
    for (bool again = true; again;) {
      again = false;
      for (size_t i = chosen.size(); i-- > 0 && chosen.size() > 1;) {
        std::vector<size_t> without = chosen;
        without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
        if (!fits(without)) continue;
        chosen = std::move(without);
        again = true;
      }
    }
  }

  // Owners of pods on nodes that the request could use, which hold something it asks for or are
  // in its way as neighbours.
  void gather_holders() {
    std::unordered_map<std::string, size_t> index_of;
    for (size_t p = 0; p < pods_.size(); ++p) {
      const size_t place = space_.place_of(p);
      if (place >= nodes_.size()) continue;
      const bool holds_room = space_.node(place).usable() && space_.empty_slots(place) > 0;
      if (!holds_room && !space_.neighbours().is_in_the_way(p)) continue;
      const FitPod& pod = pods_[p];
      const auto [found, is_new] =
          index_of.emplace(pod.k8s_namespace + '\n' + pod.owner, holders_.size());
      if (is_new) {
        holders_.push_back({.k8s_namespace = pod.k8s_namespace, .owner = pod.owner});
        holder_pods_.emplace_back();
        holders_.back().ends_unix_s = pod.ends_unix_s;
        holders_.back().priority = pod.priority;
      }
      Holder& holder = holders_[found->second];
      holder.pods.push_back(pod.name);
      holder.priority = std::max(holder.priority, pod.priority);
      holder.nodes.push_back(nodes_[place].name);
      for (const auto& [name, amount] : pod.requests) holder.holds[name] += amount;
      if (!pod.ends_unix_s || !holder.ends_unix_s) {
        holder.ends_unix_s.reset();
      } else {
        holder.ends_unix_s = std::max(*holder.ends_unix_s, *pod.ends_unix_s);
      }
      holder_pods_[found->second].push_back(p);
    }
    for (Holder& holder : holders_) {
      std::ranges::sort(holder.nodes);
      const auto repeats = std::ranges::unique(holder.nodes);
      holder.nodes.erase(repeats.begin(), repeats.end());
    }
  }

  bool fits_without(const std::vector<size_t>& holders) const {
    std::vector<size_t> gone;
    for (const size_t h : holders) {
      gone.insert(gone.end(), holder_pods_[h].begin(), holder_pods_[h].end());
    }
    return fits_with({.gone = std::move(gone)});
  }

  void free_holders() {
    fewest_ = fewest_holders(all_holders());
    if (fewest_.empty()) return;
    Change change{.kind = ChangeKind::kFreeHolders};
    for (const size_t h : fewest_) change.holders.push_back(holders_[h]);
    changes_.push_back(std::move(change));
  }

  // Those whose room would do alone come from the ones that hold the most of what is scarce.
  std::vector<size_t> fewest_holders(std::vector<size_t> order) const {
    const std::string scarce = scarce_name();
    std::ranges::stable_sort(order, std::less{}, [&](size_t h) { return weight(h, scarce); });
    // Where pods are spread, the end of one that counts can leave less room: all is not the most.
    const bool more_is_more = request_.spread.empty();
    if (order.empty() || (more_is_more && !fits_without(order))) return {};
    // Groups share nodes, and neighbours keep others free, in ways that this bound does not see.
    const bool is_bound = request_.groups.size() == 1 && !space_.neighbours().any();
    const uint64_t missing = is_bound ? missing_ : 0;
    const size_t pairs = is_bound ? kMaxPairHolders : kMaxPairsUnbound;
    std::vector<uint64_t> gain;
    for (const size_t h : order) gain.push_back(most_gain(h));
    // The lightest that does: it disturbs the least.
    const size_t singles = is_bound ? order.size() : std::min(order.size(), kMaxSinglesUnbound);
    for (size_t a = order.size() - singles; a < order.size(); ++a) {
      if (gain[a] >= missing && fits_without({order[a]})) return {order[a]};
    }
    const size_t first = order.size() > pairs ? order.size() - pairs : 0;
    for (size_t a = first; a < order.size(); ++a) {
      for (size_t b = first; b < a; ++b) {
        if (gain[a] + gain[b] < missing) continue;
        if (fits_without({order[b], order[a]})) return {order[b], order[a]};
      }
    }
    if (!more_is_more && !fits_without(order)) return {};
    // Take the heaviest until it fits, then leave out what is not needed.
    size_t low = 1;
    size_t high = order.size();
    std::ranges::reverse(order);
    const auto first_of = [&](size_t count) {
      return std::vector<size_t>(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
    };
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      fits_without(first_of(middle)) ? high = middle : low = middle + 1;
    }
    std::vector<size_t> chosen = first_of(low);
    leave_out(chosen, [&](const std::vector<size_t>& some) { return fits_without(some); });
    return chosen;
  }

  std::vector<size_t> all_holders() const {
    std::vector<size_t> order(holders_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    return order;
  }

  // Whose room the scheduler would take: the fewest owners, all of lower priority.
  std::vector<Holder> preempted() const {
    if (!request_.preempts) return {};
    std::vector<size_t> lower = all_holders();
    std::erase_if(lower, [&](size_t h) { return holders_[h].priority >= request_.priority; });
    const bool is_all = lower.size() == holders_.size();
    std::vector<Holder> out;
    for (const size_t h : is_all ? fewest_ : fewest_holders(std::move(lower))) {
      out.push_back(holders_[h]);
    }
    return out;
  }

  // The most pods that a holder's nodes could take were they empty, beyond what they take now.
  uint64_t most_gain(size_t h) const {
    uint64_t gain = 0;
    size_t last = nodes_.size();
    for (const size_t p : holder_pods_[h]) {
      const size_t i = space_.place_of(p);
      if (i != last) gain += space_.empty_slots(i) - space_.slots(i);
      last = i;
    }
    return gain;
  }

  // An accelerator if one is asked for, else the CPUs.
  std::string scarce_name() const {
    for (const auto& [name, amount] : request_.groups.front().per_pod) {
      if (amount > 0 && name.find('/') != std::string::npos) return name;
    }
    return "cpu";
  }

  int64_t weight(size_t h, const std::string& name) const {
    const auto found = holders_[h].holds.find(name);
    return found == holders_[h].holds.end() ? 0 : found->second;
  }

  // The first deadline after which it fits, when those before it have passed.
  std::optional<int64_t> known_time() const {
    std::vector<size_t> ending;
    for (size_t h = 0; h < holders_.size(); ++h) {
      if (holders_[h].ends_unix_s) ending.push_back(h);
    }
    std::ranges::stable_sort(ending, {}, [&](size_t h) { return *holders_[h].ends_unix_s; });
    if (ending.empty() || !fits_without(ending)) return std::nullopt;
    std::vector<int64_t> times;
    for (const size_t h : ending) {
      if (times.empty() || times.back() != *holders_[h].ends_unix_s) {
        times.push_back(*holders_[h].ends_unix_s);
      }
    }
    size_t low = 0;
    size_t high = times.size() - 1;
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      std::vector<size_t> gone = ending;
      std::erase_if(gone, [&](size_t h) { return *holders_[h].ends_unix_s > times[middle]; });
      fits_without(gone) ? high = middle : low = middle + 1;
    }
    return times[low];
  }

  const std::vector<FitNode>& nodes_;
  const std::vector<FitPod>& pods_;
  const FitRequest& request_;
  const FitSpace space_;
  const Neighbours::State now_;
  uint64_t missing_ = 0;  // pods that find no place now
  std::vector<Change> changes_;
  std::vector<Holder> holders_;
  std::vector<size_t> fewest_;  // holders whose end makes room
  std::vector<std::vector<size_t>> holder_pods_;
};

}  // namespace

Fit compute_fit(const std::vector<FitNode>& nodes, const std::vector<FitPod>& pods,
                const FitRequest& request) {
  return Search(nodes, pods, request).run();
}

}  // namespace shanty::check
