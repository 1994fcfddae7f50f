#include "follow/replacements.h"

#include <algorithm>

#include <fmt/format.h>

#include "follow/patience.h"

namespace shanty::follow {

Status Replacements::want(const std::string& pod, TimePoint now) {
  if (++wanted_ > max_) {
    return Error{fmt::format("pod {} is gone, and pods were replaced {} times", pod, max_)};
  }
  due_[pod] = {.at = now, .until = now + kGiveUpAfter};
  return {};
}

Status Replacements::make_due(TimePoint now) {
  for (auto at = due_.begin(); at != due_.end();) {
    auto& [pod, due] = *at;
    if (now < due.at) {
      ++at;
      continue;
    }
    const kube::ApiStatus made = make_(pod);
    if (made.ok()) {
      at = due_.erase(at);
      continue;
    }
    if (!made.error().may_pass() || now >= due.until) {
      return Error{fmt::format("making pod {} anew: {}", pod, made.error().message)};
    }
    due.at = now + due.wait;
    due.wait = std::min(2 * due.wait, kLongestWait);
    ++at;
  }
  return {};
}

}  // namespace shanty::follow
