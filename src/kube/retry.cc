#include "kube/retry.h"

#include <algorithm>
#include <charconv>

namespace shanty::kube {
namespace {

using net::HttpFailure;

// Only the form in seconds: API servers send no dates.
std::optional<Duration> retry_after(const net::HttpAnswer& answer) {
  const std::string_view text = net::find_header(answer.headers, "Retry-After");
  uint32_t seconds = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
    return std::nullopt;
  }
  return std::chrono::seconds(seconds);
}

bool is_passing(const net::HttpAnswer& answer, bool repeatable) {
  switch (answer.failure) {
    case HttpFailure::kConnect:
    case HttpFailure::kResolve:
      return true;
    case HttpFailure::kTimeout:
    case HttpFailure::kClosed:
      return repeatable || !answer.sent;
    case HttpFailure::kRequest:
    case HttpFailure::kProxy:
    case HttpFailure::kTls:
    case HttpFailure::kProtocol:
    case HttpFailure::kTooLarge:
    case HttpFailure::kStopped:
      return false;
    case HttpFailure::kNone:
      break;
  }
  if (answer.status == 429) return true;
  // An answer with Retry-After was not acted on.
  if (answer.status == 503) return repeatable || retry_after(answer).has_value();
  return repeatable && (answer.status == 500 || answer.status == 502 || answer.status == 504);
}

}  // namespace

std::optional<Duration> wait_before_retry(const net::HttpAnswer& answer, bool repeatable,
                                          int attempt, const RetryLimits& limits, double spread) {
  if (attempt >= limits.attempts || !is_passing(answer, repeatable)) return std::nullopt;
  const int doublings = std::min(attempt - 1, 20);
  Duration wait = std::min(limits.first_wait * (int64_t{1} << doublings), limits.longest_wait);
  wait = Duration(static_cast<int64_t>(static_cast<double>(wait.count()) * (0.5 + spread / 2)));
  if (const auto asked = retry_after(answer)) wait = std::max(wait, *asked);
  return std::min(wait, limits.longest_wait);
}

}  // namespace shanty::kube
