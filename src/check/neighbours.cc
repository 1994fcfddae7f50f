#include "check/neighbours.h"

#include <algorithm>
#include <unordered_map>

namespace shanty::check {
namespace {

// Pods times nodes, beyond which several rules are looked at one after the other.
constexpr uint64_t kMaxPlacements = 500'000;

// The lowest count among the domains that count; 0 where there are fewer than asked for.
int64_t lowest_of(const std::vector<int64_t>& counts, const std::vector<char>& is_domain,
                  uint64_t min_domains) {
  int64_t lowest = INT64_MAX;
  uint64_t domains = 0;
  for (size_t d = 0; d < counts.size(); ++d) {
    if (is_domain[d] == 0) continue;
    ++domains;
    lowest = std::min(lowest, counts[d]);
  }
  return domains == 0 || domains < min_domains ? 0 : lowest;
}

bool selects(const std::optional<std::vector<LabelNeed>>& selector,
             const std::map<std::string, std::string>& labels) {
  return selector &&
         std::ranges::all_of(*selector, [&](const LabelNeed& need) { return meets(labels, need); });
}

}  // namespace

bool concerns(const ApartTerm& term, const std::string& own_namespace,
              const std::string& k8s_namespace, const std::map<std::string, std::string>& labels) {
  const bool here = term.all_namespaces ||
                    (term.namespaces.empty() ? k8s_namespace == own_namespace
                                             : std::ranges::find(term.namespaces, k8s_namespace) !=
                                                   term.namespaces.end());
  return here && selects(term.selector, labels);
}

Neighbours::Neighbours(const std::vector<FitNode>& nodes, const std::vector<FitPod>& pods,
                       const std::vector<size_t>& place_of, const FitRequest& request)
    : nodes_(nodes), place_of_(place_of), areas_of_pod_(pods.size()), counts_of_pod_(pods.size()) {
  const std::string& own = request.k8s_namespace;
  for (const FitNode& node : nodes) {
    eligible_.push_back(meets_any(node.labels, request.needs) ? 1 : 0);
  }
  for (size_t p = 0; p < pods.size(); ++p) {
    if (place_of[p] >= nodes.size()) continue;
    const FitPod& pod = pods[p];
    for (const ApartTerm& term : pod.apart) {
      if (concerns(term, pod.k8s_namespace, own, request.labels)) {
        add_keeper(p, term.topology_key);
      }
    }
    for (const ApartTerm& term : request.apart) {
      if (concerns(term, own, pod.k8s_namespace, pod.labels)) add_keeper(p, term.topology_key);
    }
  }
  areas_of_node_.resize(nodes.size());
  for (size_t i = 0; i < nodes.size() && !keepers_.empty(); ++i) {
    for (const auto& [key, value] : nodes[i].labels) {
      const auto area = area_of_.find({key, value});
      if (area != area_of_.end()) areas_of_node_[i].push_back(area->second);
    }
  }
  for (const ApartTerm& term : request.apart) {
    if (!concerns(term, own, own, request.labels)) continue;
    rules_.push_back(rule_of(term.topology_key));
    all_.counts.emplace_back(rules_.back().domains, 0);
  }
  for (const SpreadTerm& term : request.spread) {
    // Pods that do not count themselves are held by what runs only, which is rare and left out.
    if (!selects(term.selector, request.labels)) continue;
    Rule rule = rule_of(term.topology_key);
    rule.is_spread = true;
    rule.spread = term;
    std::vector<int64_t>& counts = all_.counts.emplace_back(rule.domains, 0);
    for (size_t p = 0; p < pods.size(); ++p) {
      const size_t place = place_of[p];
      if (place >= nodes.size() || pods[p].k8s_namespace != own || eligible_[place] == 0) continue;
      const size_t domain = rule.domain_of[place];
      if (domain == kNone || !selects(term.selector, pods[p].labels)) continue;
      ++counts[domain];
      counts_of_pod_[p].emplace_back(rules_.size(), domain);
    }
    rules_.push_back(std::move(rule));
  }
}

void Neighbours::add_keeper(size_t pod, const std::string& key) {
  const auto& labels = nodes_[place_of_[pod]].labels;
  const auto value = labels.find(key);
  if (value == labels.end()) return;
  const auto [found, is_new] = area_of_.emplace(std::pair(key, value->second), keepers_.size());
  if (is_new) {
    keepers_.push_back(pod);
    all_.keepers.push_back(0);
  }
  std::vector<size_t>& areas = areas_of_pod_[pod];
  if (std::ranges::find(areas, found->second) != areas.end()) return;
  areas.push_back(found->second);
  ++all_.keepers[found->second];
}

Neighbours::Rule Neighbours::rule_of(const std::string& key) const {
  Rule rule;
  std::unordered_map<std::string, size_t> index;
  for (const FitNode& node : nodes_) {
    const auto label = node.labels.find(key);
    rule.domain_of.push_back(label == node.labels.end()
                                 ? kNone
                                 : index.emplace(label->second, index.size()).first->second);
  }
  rule.domains = index.size();
  return rule;
}

Neighbours::State Neighbours::state_without(const std::vector<size_t>& gone) const {
  State state = all_;
  for (const size_t pod : gone) {
    for (const size_t area : areas_of_pod_[pod]) --state.keepers[area];
    for (const auto& [rule, domain] : counts_of_pod_[pod]) --state.counts[rule][domain];
  }
  return state;
}

bool Neighbours::is_kept_free(const State& state, size_t node) const {
  return std::ranges::any_of(areas_of_node_[node],
                             [&](size_t area) { return state.keepers[area] > 0; });
}

size_t Neighbours::keeper_of(size_t node) const {
  const std::vector<size_t>& areas = areas_of_node_[node];
  return areas.empty() ? counts_of_pod_.size() : keepers_[areas.front()];
}

// How many pods more each domain may get. A spread pod may go where the count is at most max_skew
// above the lowest; the lowest rises until a domain is full.
std::vector<uint64_t> Neighbours::room_of(const Rule& rule, const std::vector<int64_t>& counts,
                                          const std::vector<char>& may_use,
                                          const std::vector<size_t>& members,
                                          const std::vector<uint64_t>& slots) const {
  std::vector<uint64_t> room(rule.domains, 1);
  if (!rule.is_spread) return room;
  std::vector<uint64_t> capacity(rule.domains, 0);
  for (size_t k = 0; k < members.size(); ++k) {
    const size_t domain = rule.domain_of[members[k]];
    if (domain != kNone) capacity[domain] += slots[k];
  }
  std::vector<int64_t> full = counts;
  for (size_t d = 0; d < rule.domains; ++d) {
    full[d] += static_cast<int64_t>(std::min<uint64_t>(capacity[d], uint64_t{1} << 40));
  }
  const int64_t lowest =
      lowest_of(full, domains_that_count(rule, may_use), rule.spread.min_domains);
  for (size_t d = 0; d < rule.domains; ++d) {
    const int64_t most = lowest + rule.spread.max_skew - counts[d];
    room[d] = static_cast<uint64_t>(std::max<int64_t>(0, most));
  }
  return room;
}

std::vector<char> Neighbours::domains_that_count(const Rule& rule,
                                                 const std::vector<char>& may_use) const {
  std::vector<char> is_domain(rule.domains, 0);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const bool counts_as_one = eligible_[i] != 0 && (!rule.spread.honors_taints || may_use[i] != 0);
    if (counts_as_one && rule.domain_of[i] != kNone) is_domain[rule.domain_of[i]] = 1;
  }
  return is_domain;
}

void Neighbours::limit_by_rule(size_t r, const State& state, const std::vector<char>& may_use,
                               const std::vector<size_t>& members,
                               std::vector<uint64_t>& slots) const {
  const Rule& rule = rules_[r];
  std::vector<uint64_t> room = room_of(rule, state.counts[r], may_use, members, slots);
  for (size_t k = 0; k < members.size(); ++k) {
    const size_t domain = rule.domain_of[members[k]];
    if (domain == kNone) {
      if (rule.is_spread) slots[k] = 0;  // the scheduler leaves such nodes out
      continue;
    }
    slots[k] = std::min(slots[k], room[domain]);
    room[domain] -= slots[k];
  }
}

bool Neighbours::allows(size_t node, const std::vector<std::vector<int64_t>>& counts,
                        const std::vector<int64_t>& lowest) const {
  for (size_t r = 0; r < rules_.size(); ++r) {
    const Rule& rule = rules_[r];
    const size_t domain = rule.domain_of[node];
    if (domain == kNone) {
      if (rule.is_spread) return false;
    } else if (counts[r][domain] - lowest[r] >= (rule.is_spread ? rule.spread.max_skew : 1)) {
      return false;
    }
  }
  return true;
}

void Neighbours::place_one_by_one(const State& state, const std::vector<char>& may_use,
                                  const std::vector<size_t>& members, uint64_t pods,
                                  std::vector<uint64_t>& slots) const {
  std::vector<std::vector<int64_t>> counts = state.counts;
  std::vector<std::vector<char>> is_domain;
  for (const Rule& rule : rules_) is_domain.push_back(domains_that_count(rule, may_use));
  std::vector<uint64_t> taken(members.size(), 0);
  std::vector<int64_t> lowest(rules_.size(), 0);
  std::vector<size_t> open;
  for (; pods > 0; --pods) {
    for (size_t r = 0; r < rules_.size(); ++r) {
      if (!rules_[r].is_spread) continue;
      lowest[r] = lowest_of(counts[r], is_domain[r], rules_[r].spread.min_domains);
    }
    open.clear();
    for (size_t k = 0; k < members.size(); ++k) {
      if (taken[k] < slots[k] && allows(members[k], counts, lowest)) open.push_back(k);
    }
    if (open.empty()) break;
    // A pod there shuts the other nodes of its domains, or makes them fuller than others.
    std::vector<std::vector<int64_t>> shut;
    for (const Rule& rule : rules_) {
      std::vector<int64_t>& nodes = shut.emplace_back(rule.domains, 0);
      for (const size_t k : open) {
        if (rule.domain_of[members[k]] != kNone) ++nodes[rule.domain_of[members[k]]];
      }
    }
    const auto price = [&](size_t k) {
      int64_t above = 0;
      int64_t shuts = 0;
      for (size_t r = 0; r < rules_.size(); ++r) {
        const size_t domain = rules_[r].domain_of[members[k]];
        if (domain == kNone) continue;
        (rules_[r].is_spread ? above : shuts) +=
            rules_[r].is_spread ? counts[r][domain] - lowest[r] : shut[r][domain];
      }
      return std::pair(above, shuts);
    };
    const size_t best = *std::ranges::min_element(open, {}, price);
    ++taken[best];
    for (size_t r = 0; r < rules_.size(); ++r) {
      const size_t domain = rules_[r].domain_of[members[best]];
      if (domain != kNone) ++counts[r][domain];
    }
  }
  slots = std::move(taken);
}

void Neighbours::limit(const State& state, const std::vector<char>& may_use,
                       const std::vector<size_t>& members, uint64_t pods,
                       std::vector<uint64_t>& slots) const {
  for (size_t k = 0; k < members.size(); ++k) {
    if (slots[k] > 0 && is_kept_free(state, members[k])) slots[k] = 0;
  }
  if (rules_.size() > 1 && pods <= kMaxPlacements / std::max<size_t>(members.size(), 1)) {
    return place_one_by_one(state, may_use, members, pods, slots);
  }
  for (size_t r = 0; r < rules_.size(); ++r) limit_by_rule(r, state, may_use, members, slots);
}

}  // namespace shanty::check
