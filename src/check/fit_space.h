#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "check/fit.h"
#include "check/neighbours.h"

namespace shanty::check {

// The cluster as seen by one request: what is free on each node, and which nodes may be used. Small
// and flat, since a search for a change looks at hundreds of variations of it.
class FitSpace {
 public:
  FitSpace(const std::vector<FitNode>& nodes, const std::vector<FitPod>& pods,
           const FitRequest& request);

  struct Node {
    bool labels_match = false;
    bool reaches_volumes = false;
    bool schedulable = false;   // ready and not cordoned
    std::vector<Taint> taints;  // not tolerated
    bool suits() const { return labels_match && reaches_volumes; }
    bool usable() const { return suits() && schedulable && taints.empty(); }
  };

  // What may be varied. Empty: as it is.
  struct Variation {
    std::vector<char> usable;  // by node, instead of Node::usable
    std::vector<size_t> gone;  // pods
    const FitRequest* request = nullptr;
    bool any_place = false;  // ignores the topology label
  };
  struct Placed {
    uint64_t pods = 0;
    bool all = false;
    size_t domain = 0;
  };
  // As many pods as fit in the best domain.
  Placed place(const Variation& variation) const;
  Placed place() const { return place(Variation()); }

  // Pods of the first group that node `index` takes when `usable` or not.
  uint64_t slots(size_t index) const;
  uint64_t empty_slots(size_t index) const;
  // The column in which an ask of the first group is short, with what is free or with all.
  std::string lack(size_t index, bool when_empty) const;

  size_t columns() const { return names_.size(); }
  const Neighbours& neighbours() const { return neighbours_; }
  const std::vector<std::string>& names() const { return names_; }
  const Node& node(size_t index) const { return info_[index]; }
  size_t node_count() const { return info_.size(); }
  size_t domain_of(size_t index) const { return domain_of_[index]; }
  const std::string& domain_name(size_t domain) const { return domain_names_[domain]; }
  int64_t held(size_t pod, size_t column) const { return held_[pod * columns() + column]; }
  // The node of a pod, or node_count().
  size_t place_of(size_t pod) const { return place_of_[pod]; }

  static constexpr size_t kNoDomain = SIZE_MAX;

 private:
  uint64_t slots_in(const std::vector<int64_t>& amounts, size_t index, const FitGroup& group) const;
  struct Ground;  // what a variation leaves
  // By node: whether pods of a group with a placement of its own may run there.
  std::vector<char> usable_by(const std::vector<FitNode>& nodes, const FitPlacement& own) const;
  uint64_t fill(const std::vector<size_t>& members, const FitRequest& request,
                Ground& ground) const;
  std::vector<int64_t> asks_of(const FitGroup& group) const;

  const FitRequest& request_;
  std::vector<std::string> names_;  // of the columns
  std::vector<Node> info_;
  std::vector<int64_t> free_;  // by node and column; may be negative
  std::vector<int64_t> all_;
  std::vector<int64_t> held_;  // by pod and column
  std::vector<size_t> place_of_;
  std::vector<size_t> domain_of_;
  std::vector<std::string> domain_names_;
  std::vector<std::vector<size_t>> domains_;
  std::vector<size_t> everywhere_;
  std::vector<std::vector<char>> own_usable_;  // by group; empty: as the first
  Neighbours neighbours_;                      // last: it is made of the others
};

}  // namespace shanty::check
