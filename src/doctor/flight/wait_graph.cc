#include "doctor/flight/wait_graph.h"

#include <algorithm>
#include <limits>

namespace shanty::flight {
namespace {

constexpr uint32_t kUnseen = std::numeric_limits<uint32_t>::max();

// Tarjan's strongly connected components without recursion. Components come out in the order in
// which everything they wait for has come out before.
class Components {
 public:
  explicit Components(const std::vector<std::vector<uint32_t>>& edges)
      : edges_(edges),
        order_(edges.size(), kUnseen),
        low_(edges.size()),
        of_(edges.size(), kUnseen) {
    for (uint32_t node = 0; node < edges.size(); ++node) {
      if (order_[node] == kUnseen) visit(node);
    }
  }
  uint32_t of(uint32_t node) const { return of_[node]; }
  uint32_t count() const { return count_; }

 private:
  struct Visit {
    uint32_t node;
    size_t next_edge;
  };

  void enter(uint32_t node) {
    order_[node] = low_[node] = next_order_++;
    open_.push_back(node);
    visits_.push_back({node, 0});
  }

  void visit(uint32_t start) {
    enter(start);
    while (!visits_.empty()) {
      Visit& visit = visits_.back();
      const uint32_t node = visit.node;
      if (visit.next_edge < edges_[node].size()) {
        const uint32_t next = edges_[node][visit.next_edge++];
        if (order_[next] == kUnseen) {
          enter(next);
        } else if (of_[next] == kUnseen) {
          low_[node] = std::min(low_[node], order_[next]);
        }
        continue;
      }
      visits_.pop_back();
      if (!visits_.empty()) {
        low_[visits_.back().node] = std::min(low_[visits_.back().node], low_[node]);
      }
      if (low_[node] == order_[node]) close(node);
    }
  }

  void close(uint32_t node) {
    uint32_t member = kUnseen;
    do {
      member = open_.back();
      open_.pop_back();
      of_[member] = count_;
    } while (member != node);
    ++count_;
  }

  const std::vector<std::vector<uint32_t>>& edges_;
  std::vector<uint32_t> order_;
  std::vector<uint32_t> low_;
  std::vector<uint32_t> of_;
  std::vector<uint32_t> open_;
  std::vector<Visit> visits_;
  uint32_t next_order_ = 0;
  uint32_t count_ = 0;
};

}  // namespace

std::vector<std::vector<uint32_t>> WaitGraph::roots() const {
  const Components components(waits_for_);
  std::vector<std::vector<uint32_t>> members(components.count());
  std::vector<bool> leaves(components.count(), true);
  for (uint32_t node = 0; node < waits_for_.size(); ++node) {
    const uint32_t own = components.of(node);
    members[own].push_back(node);
    for (const uint32_t next : waits_for_[node]) {
      if (components.of(next) != own) leaves[own] = false;
    }
  }
  std::vector<std::vector<uint32_t>> roots;
  for (size_t i = 0; i < members.size(); ++i) {
    if (leaves[i]) roots.push_back(std::move(members[i]));
  }
  return roots;
}

std::vector<uint32_t> WaitGraph::waiting_for(const std::vector<uint32_t>& nodes) const {
  std::vector<bool> known(awaited_by_.size());
  for (const uint32_t node : nodes) known[node] = true;
  std::vector<uint32_t> found;
  std::vector<uint32_t> todo = nodes;
  while (!todo.empty()) {
    const uint32_t node = todo.back();
    todo.pop_back();
    for (const uint32_t waiter : awaited_by_[node]) {
      if (known[waiter]) continue;
      known[waiter] = true;
      found.push_back(waiter);
      todo.push_back(waiter);
    }
  }
  return found;
}

}  // namespace shanty::flight
