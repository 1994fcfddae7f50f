#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "kube/api_result.h"

namespace shanty::follow {

// Bare pods that are gone and to be made anew, which nobody else does. Asks again, ever more
// seldom, while the server cannot be reached.
class Replacements {
 public:
  using Make = std::function<kube::ApiStatus(const std::string& pod)>;
  static constexpr Duration kFirstWait = std::chrono::seconds(1);
  static constexpr Duration kLongestWait = std::chrono::seconds(15);

  // An empty `make`: pods that others replace.
  Replacements(Make make, uint64_t max) : make_(std::move(make)), max_(max) {}

  bool replaces() const { return make_ != nullptr; }
  // One more is gone. An error: more than `max` are.
  Status want(const std::string& pod, TimePoint now);
  // Makes those whose turn it is. An error ends the job: the cluster takes no more pods, or it has
  // not been reached for kGiveUpAfter.
  Status make_due(TimePoint now);

 private:
  struct Due {
    TimePoint at;
    TimePoint until;
    Duration wait = kFirstWait;
  };

  Make make_;
  uint64_t max_;
  uint64_t wanted_ = 0;
  std::map<std::string, Due> due_;  // by pod
};

}  // namespace shanty::follow
