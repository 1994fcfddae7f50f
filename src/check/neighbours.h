#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "check/fit.h"

namespace shanty::check {

// What the pods of a request may have for neighbours: required anti-affinity, theirs and that of
// running pods, and how evenly they have to be spread. The rules are those of the first group.
//
// A single rule is reckoned exactly. Several hold for each pod at once: pods are placed one after
// the other, as the scheduler does, each where the rules leave the most room for the rest.
class Neighbours {
 public:
  // `place_of`: the node of each pod, or nodes.size().
  Neighbours(const std::vector<FitNode>& nodes, const std::vector<FitPod>& pods,
             const std::vector<size_t>& place_of, const FitRequest& request);

  bool any() const { return !keepers_.empty() || !rules_.empty(); }

  // How things stand when some pods are gone.
  struct State {
    std::vector<int64_t> keepers;              // by area: pods that keep it free of the request's
    std::vector<std::vector<int64_t>> counts;  // by rule and domain: pods that count already
  };
  State state_without(const std::vector<size_t>& gone) const;

  bool is_kept_free(const State& state, size_t node) const;
  // One pod that keeps it free; pods' count: none.
  size_t keeper_of(size_t node) const;
  // This pod keeps nodes free of the request's, or counts where they are to be spread.
  bool is_in_the_way(size_t pod) const {
    return !areas_of_pod_[pod].empty() || !counts_of_pod_[pod].empty();
  }

  // Lowers `slots` (by position in `members`: pods that a node takes by its resources) until all of
  // them together keep the rules; `pods` are wanted. `may_use`: by node.
  void limit(const State& state, const std::vector<char>& may_use,
             const std::vector<size_t>& members, uint64_t pods, std::vector<uint64_t>& slots) const;

 private:
  static constexpr size_t kNone = SIZE_MAX;
  struct Rule {
    bool is_spread = false;  // else at most one pod in each domain
    SpreadTerm spread;
    std::vector<size_t> domain_of;  // by node; kNone: it has no such label
    size_t domains = 0;
  };

  void add_keeper(size_t pod, const std::string& key);
  Rule rule_of(const std::string& key) const;
  // By domain of a spread rule: whether its count is one of those that are compared.
  std::vector<char> domains_that_count(const Rule& rule, const std::vector<char>& may_use) const;
  void limit_by_rule(size_t rule, const State& state, const std::vector<char>& may_use,
                     const std::vector<size_t>& members, std::vector<uint64_t>& slots) const;
  void place_one_by_one(const State& state, const std::vector<char>& may_use,
                        const std::vector<size_t>& members, uint64_t pods,
                        std::vector<uint64_t>& slots) const;
  bool allows(size_t node, const std::vector<std::vector<int64_t>>& counts,
              const std::vector<int64_t>& lowest) const;
  std::vector<uint64_t> room_of(const Rule& rule, const std::vector<int64_t>& counts,
                                const std::vector<char>& may_use,
                                const std::vector<size_t>& members,
                                const std::vector<uint64_t>& slots) const;

  const std::vector<FitNode>& nodes_;
  const std::vector<size_t>& place_of_;
  std::vector<char> eligible_;  // by node: its labels are those asked for
  // An area: nodes with one value of a label, which pods keep free.
  std::vector<size_t> keepers_;  // by area: the first of these pods
  std::vector<std::vector<size_t>> areas_of_node_;
  std::vector<std::vector<size_t>> areas_of_pod_;
  std::vector<Rule> rules_;
  std::vector<std::vector<std::pair<size_t, size_t>>> counts_of_pod_;  // rules and domains
  State all_;                                                          // when no pod is gone
  std::map<std::pair<std::string, std::string>, size_t> area_of_;      // by label and value
};

// The rules of `selector` hold for a pod in `k8s_namespace` with these labels; the term's own pod
// is in `own_namespace`.
bool concerns(const ApartTerm& term, const std::string& own_namespace,
              const std::string& k8s_namespace, const std::map<std::string, std::string>& labels);

}  // namespace shanty::check
