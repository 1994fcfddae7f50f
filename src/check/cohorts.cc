#include "check/cohorts.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string_view>

namespace shanty::check {
namespace {

constexpr size_t kNoParent = SIZE_MAX;

// Quotas that stand for "no limit" are as large as a number can be.
int64_t plus(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}

// A ClusterQueue or a Cohort, as to one resource in one flavor.
struct QuotaNode {
  size_t parent = kNoParent;
  int64_t quota = 0;  // its own, and what those below it lend
  int64_t used = 0;   // of `quota`, by itself and those below it
  std::optional<int64_t> borrow;
  std::optional<int64_t> lend;

  // Never lent to the parent.
  int64_t kept() const { return lend ? std::max<int64_t>(0, quota - *lend) : 0; }
  int64_t lent() const { return quota - kept(); }
  int64_t used_of_parent() const { return std::max<int64_t>(0, used - kept()); }
};

// All trees of cohorts; the leaves are the ClusterQueues.
class QuotaTrees {
 public:
  QuotaTrees(const Snapshot& snapshot, const std::string& flavor, const std::string& resource)
      : flavor_(flavor), resource_(resource) {
    for (const CohortFacts& cohort : snapshot.cohorts) {
      const size_t node = cohort_node(cohort.name);
      take_quotas(cohort.quotas, nodes_[node]);
      const size_t parent = cohort.parent.empty() ? kNoParent : cohort_node(cohort.parent);
      nodes_[node].parent = parent;
    }
    for (const ClusterQueueFacts& queue : snapshot.cluster_queues) {
      QuotaNode node{.parent = queue.cohort.empty() ? kNoParent : cohort_node(queue.cohort)};
      take_quotas(queue.quotas, node);
      queues_[queue.name] = nodes_.size();
      nodes_.push_back(node);
    }
    add_up();
  }

  QuotaShare share_of(const std::string& queue) const {
    std::vector<size_t> way;  // from the queue up
    for (size_t node = queues_.at(queue); node != kNoParent && way.size() < nodes_.size();
         node = nodes_[node].parent) {
      way.push_back(node);
    }
    std::ranges::reverse(way);
    QuotaShare share{.most = nodes_[way.front()].quota,
                     .free = nodes_[way.front()].quota - nodes_[way.front()].used};
    for (const size_t each : std::vector(way.begin() + 1, way.end())) {
      const QuotaNode& node = nodes_[each];
      share.most = plus(share.most, node.kept());
      if (node.borrow) {
        share.most = std::min(share.most, plus(node.quota, *node.borrow));
        const int64_t left = plus(node.lent() - node.used_of_parent(), *node.borrow);
        share.free = std::min(share.free, left);
      }
      share.free = plus(share.free, std::max<int64_t>(0, node.kept() - node.used));
    }
    share.free = std::max<int64_t>(0, share.free);
    return share;
  }

 private:
  size_t cohort_node(const std::string& name) {
    const auto [found, is_new] = cohorts_.emplace(name, nodes_.size());
    if (is_new) nodes_.emplace_back();
    return found->second;
  }

  void take_quotas(const std::vector<FlavorQuota>& quotas, QuotaNode& node) const {
    for (const FlavorQuota& each : quotas) {
      if (each.flavor != flavor_ || each.resource != resource_) continue;
      node.quota = each.nominal;
      node.used = each.used;
      node.borrow = each.borrow;
      node.lend = each.lend;
    }
  }

  // Those of a cycle have no end: they count as very deep, which adds each once.
  size_t depth_of(size_t node) const {
    size_t depth = 0;
    for (; nodes_[node].parent != kNoParent && depth < nodes_.size(); ++depth) {
      node = nodes_[node].parent;
    }
    return depth;
  }

  void add_up() {
    std::vector<std::pair<size_t, size_t>> order;  // depth, node
    for (size_t i = 0; i < nodes_.size(); ++i) order.emplace_back(depth_of(i), i);
    std::ranges::sort(order, std::greater{});
    for (const auto& [depth, i] : order) {
      if (nodes_[i].parent == kNoParent) continue;
      QuotaNode& parent = nodes_[nodes_[i].parent];
      parent.quota = plus(parent.quota, nodes_[i].lent());
      parent.used = plus(parent.used, nodes_[i].used_of_parent());
    }
  }

  std::string_view flavor_;
  std::string_view resource_;
  std::vector<QuotaNode> nodes_;
  std::map<std::string, size_t> cohorts_;
  std::map<std::string, size_t> queues_;
};

const CohortFacts* find_cohort(const std::string& name, const Snapshot& snapshot) {
  const auto found = std::ranges::find(snapshot.cohorts, name, &CohortFacts::name);
  return found == snapshot.cohorts.end() ? nullptr : &*found;
}

}  // namespace

QuotaShare share_of(const ClusterQueueFacts& queue, const FlavorQuota& quota,
                    const Snapshot& snapshot) {
  return QuotaTrees(snapshot, quota.flavor, quota.resource).share_of(queue.name);
}

std::vector<std::string> cohort_cycle(const std::string& cohort, const Snapshot& snapshot) {
  std::vector<std::string> way;
  for (std::string name = cohort; !name.empty();) {
    if (const auto seen = std::ranges::find(way, name); seen != way.end()) {
      return {seen, way.end()};
    }
    way.push_back(name);
    const CohortFacts* facts = find_cohort(name, snapshot);
    name = facts == nullptr ? "" : facts->parent;
  }
  return {};
}

}  // namespace shanty::check
