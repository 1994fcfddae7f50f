#include "check/fit_space.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>

namespace shanty::check {
namespace {

std::optional<int64_t> number(const std::string& text) {
  int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

int64_t amount_of(const Amounts& amounts, const std::string& name) {
  const auto found = amounts.find(name);
  return found == amounts.end() ? 0 : found->second;
}

// The node of each pod, or nodes.size().
std::vector<size_t> places_of(const std::vector<FitNode>& nodes, const std::vector<FitPod>& pods) {
  std::unordered_map<std::string, size_t> index_of;
  for (size_t i = 0; i < nodes.size(); ++i) index_of.emplace(nodes[i].name, i);
  std::vector<size_t> places;
  for (const FitPod& pod : pods) {
    const auto found = index_of.find(pod.node);
    places.push_back(found == index_of.end() ? nodes.size() : found->second);
  }
  return places;
}

bool reaches_all(const FitNode& node, const std::vector<NeedSets>& volumes) {
  return std::ranges::all_of(volumes,
                             [&](const NeedSets& sets) { return meets_any(node.labels, sets); });
}

}  // namespace

bool tolerates(const std::vector<Toleration>& tolerations, const Taint& taint) {
  return std::ranges::any_of(tolerations, [&](const Toleration& each) {
    const bool key = each.key == taint.key || (each.key.empty() && each.exists);
    const bool effect = each.effect.empty() || each.effect == taint.effect;
    return key && effect && (each.exists || each.value == taint.value);
  });
}

bool meets(const std::map<std::string, std::string>& labels, const LabelNeed& need) {
  const auto found = labels.find(need.key);
  const bool there = found != labels.end();
  const bool listed = there && std::ranges::find(need.values, found->second) != need.values.end();
  if (need.op == "In") return listed;
  if (need.op == "NotIn") return !listed;
  if (need.op == "Exists") return there;
  if (need.op == "DoesNotExist") return !there;
  if (!there || need.values.size() != 1) return false;
  const auto has = number(found->second);
  const auto bound = number(need.values.front());
  if (!has || !bound) return false;
  return need.op == "Gt" ? *has > *bound : need.op == "Lt" && *has < *bound;
}

bool meets_any(const std::map<std::string, std::string>& labels, const NeedSets& sets) {
  return sets.empty() || std::ranges::any_of(sets, [&](const std::vector<LabelNeed>& set) {
           return std::ranges::all_of(set,
                                      [&](const LabelNeed& need) { return meets(labels, need); });
         });
}

struct FitSpace::Ground {
  std::vector<int64_t> free;  // by node and column
  std::vector<char> usable;   // by node
  Neighbours::State neighbours;
};

FitSpace::FitSpace(const std::vector<FitNode>& nodes, const std::vector<FitPod>& pods,
                   const FitRequest& request)
    : request_(request),
      place_of_(places_of(nodes, pods)),
      neighbours_(nodes, pods, place_of_, request) {
  std::set<std::string> asked = {"pods"};
  for (const FitGroup& group : request.groups) {
    for (const auto& [name, amount] : group.per_pod) {
      if (amount > 0) asked.insert(name);
    }
  }
  names_.assign(asked.begin(), asked.end());
  std::unordered_map<std::string, size_t> domain_index;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const FitNode& node = nodes[i];
    everywhere_.push_back(i);
    Node info{.labels_match = meets_any(node.labels, request.needs),
              .reaches_volumes = reaches_all(node, request.volumes),
              .schedulable = node.ready && !node.cordoned};
    for (const Taint& taint : node.taints) {
      if (taint.effect != "PreferNoSchedule" && !tolerates(request.tolerations, taint)) {
        info.taints.push_back(taint);
      }
    }
    info_.push_back(std::move(info));
    for (const std::string& name : names_) all_.push_back(amount_of(node.allocatable, name));
    const auto label = node.labels.find(request.topology_label);
    size_t domain = kNoDomain;
    if (label != node.labels.end()) {
      domain = domain_index.emplace(label->second, domains_.size()).first->second;
      if (domain == domains_.size()) {
        domains_.emplace_back();
        domain_names_.push_back(label->second);
      }
      domains_[domain].push_back(i);
    }
    domain_of_.push_back(domain);
  }
  if (request.topology_label.empty()) {
    domains_ = {everywhere_};
    domain_names_ = {""};
    domain_of_.assign(nodes.size(), 0);
  }
  for (const FitGroup& group : request.groups) {
    own_usable_.push_back(group.placement ? usable_by(nodes, *group.placement)
                                          : std::vector<char>());
  }
  free_ = all_;
  for (size_t p = 0; p < pods.size(); ++p) {
    const size_t place = place_of_[p];
    for (size_t column = 0; column < names_.size(); ++column) {
      const int64_t amount =
          names_[column] == "pods" ? 1 : amount_of(pods[p].requests, names_[column]);
      held_.push_back(amount);
      if (place < nodes.size()) free_[place * names_.size() + column] -= amount;
    }
  }
}

std::vector<char> FitSpace::usable_by(const std::vector<FitNode>& nodes,
                                      const FitPlacement& own) const {
  std::vector<char> usable;
  for (const FitNode& node : nodes) {
    const bool tolerated = std::ranges::all_of(node.taints, [&](const Taint& taint) {
      return taint.effect == "PreferNoSchedule" || tolerates(own.tolerations, taint);
    });
    const bool may = node.ready && !node.cordoned && tolerated &&
                     meets_any(node.labels, own.needs) && reaches_all(node, own.volumes);
    usable.push_back(may ? 1 : 0);
  }
  return usable;
}

std::vector<int64_t> FitSpace::asks_of(const FitGroup& group) const {
  std::vector<int64_t> asks;
  for (const std::string& name : names_) {
    asks.push_back(name == "pods" ? 1 : amount_of(group.per_pod, name));
  }
  return asks;
}

uint64_t FitSpace::slots_in(const std::vector<int64_t>& amounts, size_t index,
                            const FitGroup& group) const {
  int64_t most = INT64_MAX;
  const std::vector<int64_t> asks = asks_of(group);
  for (size_t column = 0; column < asks.size(); ++column) {
    if (asks[column] <= 0) continue;
    const int64_t free = amounts[index * asks.size() + column];
    most = std::min(most, free <= 0 ? 0 : free / asks[column]);
  }
  return static_cast<uint64_t>(most);
}

uint64_t FitSpace::slots(size_t index) const {
  return slots_in(free_, index, request_.groups.front());
}
uint64_t FitSpace::empty_slots(size_t index) const {
  return slots_in(all_, index, request_.groups.front());
}

std::string FitSpace::lack(size_t index, bool when_empty) const {
  const std::vector<int64_t> asks = asks_of(request_.groups.front());
  const std::vector<int64_t>& amounts = when_empty ? all_ : free_;
  // An accelerator is what people look for first.
  std::string lack;
  for (size_t column = 0; column < asks.size(); ++column) {
    if (asks[column] <= amounts[index * asks.size() + column]) continue;
    if (lack.empty() || names_[column].find('/') != std::string::npos) lack = names_[column];
  }
  return lack;
}

// Groups one after the other, the first that is given first; pods of a group are alike, so that
// filling node after node is as good as any order.
uint64_t FitSpace::fill(const std::vector<size_t>& members, const FitRequest& request,
                        Ground& ground) const {
  uint64_t placed = 0;
  std::vector<uint64_t> slots(members.size());
  for (size_t g = 0; g < request.groups.size(); ++g) {
    const FitGroup& group = request.groups[g];
    const std::vector<int64_t> asks = asks_of(group);
    uint64_t left = group.pods;
    const bool has_rules = g == 0 && neighbours_.any();
    const bool has_own_place = g > 0 && !own_usable_[g].empty();
    const std::vector<char>& usable = has_own_place ? own_usable_[g] : ground.usable;
    const auto slots_at = [&](size_t index) {
      if (usable[index] == 0) return uint64_t{0};
      int64_t most = INT64_MAX;
      const int64_t* amounts = &ground.free[index * asks.size()];
      for (size_t column = 0; column < asks.size(); ++column) {
        if (asks[column] <= 0) continue;
        most = std::min(most, amounts[column] <= 0 ? 0 : amounts[column] / asks[column]);
      }
      return static_cast<uint64_t>(most);
    };
    if (has_rules) {
      for (size_t k = 0; k < members.size(); ++k) slots[k] = slots_at(members[k]);
      neighbours_.limit(ground.neighbours, ground.usable, members, left, slots);
    }
    // A group of its own place keeps to the topology of the first only where it says so too.
    const bool is_bound =
        !has_own_place || group.placement->topology_label == request.topology_label;
    const std::vector<size_t>& places = is_bound ? members : everywhere_;
    for (size_t k = 0; k < places.size() && left > 0; ++k) {
      const size_t index = places[k];
      const uint64_t taken = std::min(left, has_rules ? slots[k] : slots_at(index));
      if (taken == 0) continue;
      int64_t* amounts = &ground.free[index * asks.size()];
      for (size_t column = 0; column < asks.size(); ++column) {
        amounts[column] -= asks[column] * static_cast<int64_t>(taken);
      }
      left -= taken;
      placed += taken;
    }
  }
  return placed;
}

FitSpace::Placed FitSpace::place(const Variation& variation) const {
  const FitRequest& request = variation.request != nullptr ? *variation.request : request_;
  uint64_t wanted = 0;
  for (const FitGroup& group : request.groups) wanted += group.pods;
  Ground ground{.free = free_, .usable = variation.usable, .neighbours = {}};
  if (ground.usable.empty()) {
    for (const Node& node : info_) ground.usable.push_back(node.usable() ? 1 : 0);
  }
  for (const size_t pod : variation.gone) {
    if (place_of_[pod] >= info_.size()) continue;
    for (size_t column = 0; column < columns(); ++column) {
      ground.free[place_of_[pod] * columns() + column] += held(pod, column);
    }
  }
  if (neighbours_.any()) ground.neighbours = neighbours_.state_without(variation.gone);
  Placed best;
  if (variation.any_place) {
    best.pods = fill(everywhere_, request, ground);
  } else {
    // Domains share no nodes, but groups with a place of their own may reach beyond them.
    const bool overlaps =
        domains_.size() > 1 &&
        std::ranges::any_of(own_usable_, [](const auto& own) { return !own.empty(); });
    const Ground untouched = overlaps ? ground : Ground();
    for (size_t domain = 0; domain < domains_.size(); ++domain) {
      if (overlaps) ground = untouched;
      const uint64_t pods = fill(domains_[domain], request, ground);
      if (domain == 0 || pods > best.pods) best = {pods, false, domain};
      if (pods == wanted) break;
    }
  }
  best.all = best.pods == wanted;
  return best;
}

}  // namespace shanty::check
