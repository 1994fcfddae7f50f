#include "logs/clocks.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace shanty {
namespace {

constexpr size_t kMaxClocks = 4096;
constexpr size_t kMaxSightings = 64;  // of one event that are compared with each other
constexpr size_t kMaxDifferences = 200;
constexpr int64_t kTightSpreadNs = 2'000'000'000;
constexpr int64_t kLooseSpreadNs = 30'000'000'000;

// A node's, in one file: files of one node may be written in different time zones.
using Clock = std::pair<std::string, uint32_t>;

struct Moment {
  std::string key;  // the same for all that saw it
  bool tight = false;
};

struct Sighting {
  size_t clock = 0;
  int rank = -1;
  int64_t unix_ns = 0;
};

struct Difference {
  std::vector<int64_t> tight;
  std::vector<int64_t> loose;
};

std::string place_of(const Record& record) {
  return record.node.empty() ? record.pod : record.node;
}

// What this line says that others must have seen in the same moment.
std::optional<Moment> moment_of(const Record& record, int starts) {
  if (record.event == "nccl_init" && record.get("what") == "COMPLETE") {
    if (record.get("commid").empty()) return std::nullopt;
    return Moment{fmt::format("comm {}", record.get("commid")), true};
  }
  if (record.event == "rdzv_joined") {
    return Moment{fmt::format("round {} {}", record.get("id"), record.get("round")), true};
  }
  const bool known = record.rank >= 0 && !place_of(record).empty();
  if (record.event == "step" && known) {
    return Moment{fmt::format("step {} {}", starts, record.get("step")), true};
  }
  if (record.event == "timeout" && record.rank >= 0) {
    return Moment{fmt::format("timeout {} {} {} {}", starts, record.get("group"), record.get("seq"),
                              record.get("op")),
                  false};
  }
  if (record.event == "restart") return Moment{fmt::format("restart {}", starts), false};
  const std::string_view peer = record.get("peer");
  if (record.weight == Weight::kVictim && !peer.empty() && known) {
    return Moment{fmt::format("gone {} {}", starts, peer.substr(0, peer.find('<'))), false};
  }
  return std::nullopt;
}

int64_t median(std::vector<int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The offset that these differences agree on.
std::optional<int64_t> agreed(const std::vector<int64_t>& differences, int64_t spread_ns,
                              int64_t least_ns) {
  if (differences.empty()) return std::nullopt;
  const int64_t offset = median(differences);
  std::vector<int64_t> away;
  for (const int64_t difference : differences) away.push_back(std::abs(difference - offset));
  const int64_t spread = median(std::move(away));
  if (spread > spread_ns) return std::nullopt;
  return std::abs(offset) > std::max(least_ns, 3 * spread) ? offset : 0;
}

class Aligner {
 public:
  explicit Aligner(LogBook& book) : book_(book) {}

  void run() {
    collect();
    if (clocks_.size() < 2 || clocks_.size() > kMaxClocks) return;
    compare();
    solve();
    move();
  }

 private:
  size_t clock_of(const Record& record) {
    const auto [at, added] = clocks_.emplace(Clock(place_of(record), record.file), clocks_.size());
    return at->second;
  }

  void collect() {
    std::map<uint32_t, int> starts;  // by file
    std::set<std::pair<std::string, size_t>> seen;
    for (const Record& record : book_.records) {
      const size_t clock = clock_of(record);
      if (clocks_.size() > kMaxClocks) return;
      int& begun = starts[record.file];
      if (record.own_time) {
        if (auto moment = moment_of(record, begun)) {
          auto& sightings = (moment->tight ? tight_ : loose_)[moment->key];
          if (sightings.size() < kMaxSightings && seen.insert({moment->key, clock}).second) {
            sightings.push_back({clock, record.rank, record.unix_ns});
          }
        }
      }
      if (record.event == "restart") ++begun;
    }
  }

  void compare() {
    add(tight_, &Difference::tight);
    add(loose_, &Difference::loose);
  }

  void add(const std::map<std::string, std::vector<Sighting>>& moments,
           std::vector<int64_t> Difference::* list) {
    for (const auto& [key, sightings] : moments) {
      for (size_t i = 0; i < sightings.size(); ++i) {
        for (size_t k = i + 1; k < sightings.size(); ++k) {
          const Sighting& a = sightings[i];
          const Sighting& b = sightings[k];
          // One rank in two files is two runs, not two clocks.
          if (a.rank >= 0 && a.rank == b.rank) continue;
          const bool turned = a.clock > b.clock;
          auto& differences = differences_[std::minmax(a.clock, b.clock)].*list;
          const int64_t difference = b.unix_ns - a.unix_ns;
          if (differences.size() < kMaxDifferences) {
            differences.push_back(turned ? -difference : difference);
          }
        }
      }
    }
  }

  // From one clock to the next over the pairs that agree; then the middle clock is the right one.
  void solve() {
    std::vector<std::vector<std::pair<size_t, int64_t>>> edges(clocks_.size());
    for (const auto& [pair, difference] : differences_) {
      auto offset = agreed(difference.tight, kTightSpreadNs, kLeastOffsetNs);
      if (!offset) offset = agreed(difference.loose, kLooseSpreadNs, kLeastLooseOffsetNs);
      if (!offset) continue;
      edges[pair.first].push_back({pair.second, *offset});
      edges[pair.second].push_back({pair.first, -*offset});
    }
    offsets_.assign(clocks_.size(), std::nullopt);
    for (size_t first = 0; first < edges.size(); ++first) {
      if (offsets_[first] || edges[first].empty()) continue;
      std::vector<size_t> group = {first};
      offsets_[first] = 0;
      for (size_t i = 0; i < group.size(); ++i) {
        for (const auto& [next, offset] : edges[group[i]]) {
          if (offsets_[next]) continue;
          offsets_[next] = *offsets_[group[i]] + offset;
          group.push_back(next);
        }
      }
      std::vector<int64_t> all;
      for (const size_t clock : group) all.push_back(*offsets_[clock]);
      const int64_t middle = median(std::move(all));
      for (const size_t clock : group) *offsets_[clock] -= middle;
    }
  }

  void move() {
    std::map<std::string, int64_t> of_place;
    for (const auto& [clock, index] : clocks_) {
      if (offsets_[index] && !clock.first.empty()) of_place.emplace(clock.first, *offsets_[index]);
    }
    std::map<std::string, int64_t> told;
    for (Record& record : book_.records) {
      if (record.unix_ns == 0) continue;
      const std::string place = place_of(record);
      const auto& own = offsets_[clocks_.at(Clock(place, record.file))];
      const auto inherited = of_place.find(place);
      const int64_t offset = own ? *own : inherited == of_place.end() ? 0 : inherited->second;
      if (offset == 0) continue;
      record.unix_ns -= offset;
      told.emplace(place.empty() ? book_.files[record.file].name : place, offset);
    }
    for (const auto& [name, offset] : told) {
      const double seconds = static_cast<double>(offset) * 1e-9;
      book_.notes.push_back(fmt::format(
          "the clock of {} is {:.1f} s {} the others', by events that both saw; its times are "
          "compared accordingly",
          name, std::abs(seconds), seconds > 0 ? "ahead of" : "behind"));
    }
  }

  LogBook& book_;
  std::map<Clock, size_t> clocks_;
  std::map<std::string, std::vector<Sighting>> tight_;
  std::map<std::string, std::vector<Sighting>> loose_;
  std::map<std::pair<size_t, size_t>, Difference> differences_;
  std::vector<std::optional<int64_t>> offsets_;
};

}  // namespace

void align_clocks(LogBook& book) { Aligner(book).run(); }

}  // namespace shanty
