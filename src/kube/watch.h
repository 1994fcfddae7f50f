#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/clock.h"
#include "kube/api_result.h"
#include "kube/client.h"

namespace shanty::kube {

enum class WatchType { kAdded, kModified, kDeleted, kBookmark, kError };

// Cuts the body of a watch into its events. No socket.
class WatchLines {
 public:
  static constexpr size_t kMaxLineBytes = size_t{16} << 20;
  // False: no more, please.
  using OnEvent = std::function<bool(WatchType type, nlohmann::json object)>;

  explicit WatchLines(OnEvent on_event) : on_event_(std::move(on_event)) {}
  // An error when what comes is no watch. False when the reader has enough.
  Result<bool> feed(std::string_view bytes);

 private:
  Result<bool> take(std::string_view line);

  OnEvent on_event_;
  std::string partial_;
};

struct WatchOptions {
  std::string k8s_namespace;
  ListOptions list;
  Duration server_limit = std::chrono::minutes(5);  // after which the server ends a watch
  Duration idle_slack = std::chrono::seconds(30);   // beyond it, silence is a failure
  Duration first_backoff = std::chrono::milliseconds(500);
  Duration longest_backoff = std::chrono::seconds(30);
  int failures = 20;  // in a row, without anything heard, before giving up
  // A watch that stood for so long was good, even if nothing was to be told and something between
  // us and the server then cut it.
  Duration good_watch = std::chrono::seconds(20);
};

// What a follower hears. Level-triggered: on_reset, then all there is as on_object, then
// on_synced; from there on changes. After losing track (410) it begins again with on_reset.
struct WatchHandlers {
  std::function<void()> on_reset;
  std::function<void(WatchType type, const nlohmann::json& object)> on_object;
  std::function<void()> on_synced;
  std::function<void(const ApiError& error)> on_trouble;  // it goes on by itself
};

// Lists and watches until `stop`, or until the server refuses for good (no right, no such kind) or
// failed too often: then the error. Blocks; handlers run on this thread.
ApiStatus follow(Client& client, const ServedKind& kind, const WatchOptions& options,
                 const WatchHandlers& handlers, const std::stop_token& stop);

}  // namespace shanty::kube
