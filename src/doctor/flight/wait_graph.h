#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shanty::flight {

// Who waits for whom. Nodes are numbers below `size`.
class WaitGraph {
 public:
  explicit WaitGraph(size_t size) : waits_for_(size), awaited_by_(size) {}
  void add(uint32_t waiter, uint32_t awaited) {
    waits_for_[waiter].push_back(awaited);
    awaited_by_[awaited].push_back(waiter);
  }
  bool is_awaited(uint32_t node) const { return !awaited_by_[node].empty(); }
  bool waits(uint32_t node) const { return !waits_for_[node].empty(); }

  // Sets of nodes that wait for nobody outside the set: single nodes, or circles.
  std::vector<std::vector<uint32_t>> roots() const;
  // All nodes that wait for one of these, directly or not; without these.
  std::vector<uint32_t> waiting_for(const std::vector<uint32_t>& nodes) const;

 private:
  std::vector<std::vector<uint32_t>> waits_for_;
  std::vector<std::vector<uint32_t>> awaited_by_;
};

}  // namespace shanty::flight
