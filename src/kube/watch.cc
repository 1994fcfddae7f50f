#include "kube/watch.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kube/api_error.h"
#include "net/url.h"
#include "text/json_fields.h"

namespace shanty::kube {
namespace {

using nlohmann::json;

constexpr size_t kMaxNesting = 128;
constexpr Duration kShortWatch = std::chrono::seconds(1);

std::optional<WatchType> type_of(const std::string& name) {
  if (name == "ADDED") return WatchType::kAdded;
  if (name == "MODIFIED") return WatchType::kModified;
  if (name == "DELETED") return WatchType::kDeleted;
  if (name == "BOOKMARK") return WatchType::kBookmark;
  if (name == "ERROR") return WatchType::kError;
  return std::nullopt;
}

std::string version_of(const json& object) {
  const json* metadata = json_object(object, "metadata");
  return metadata == nullptr ? "" : json_string(*metadata, "resourceVersion");
}

bool is_final(const ApiError& error) {
  return error.is_forbidden() || error.status == 400 || error.status == 404 || error.status == 405;
}

// One round of list and watch after another.
class Follower {
 public:
  Follower(Client& client, const ServedKind& kind, const WatchOptions& options,
           const WatchHandlers& handlers, const std::stop_token& stop)
      : client_(client), kind_(kind), options_(options), handlers_(handlers), stop_(stop) {
    doing_ = "watch " + describe(ObjectRef{.kind = kind, .k8s_namespace = options.k8s_namespace});
  }

  ApiStatus run() {
    heard_at_ = system_clock().now();
    while (!stop_.stop_requested()) {
      const ApiStatus round = version_.empty() ? list() : watch();
      if (stop_.stop_requested()) break;
      if (round.ok()) continue;
      const ApiError& error = round.error();
      ++failures_;
      if (error.is_expired()) {
        const bool lost_track = !version_.empty() && !std::exchange(lists_anew_, true);
        version_.clear();
        if (lost_track) continue;  // as after every longer break: no trouble
      }
      if (is_final(error)) return error;
      if (failures_ >= options_.failures) return given_up(error);
      if (handlers_.on_trouble) handlers_.on_trouble(error);
      if (!client_.wait(backoff())) break;
    }
    return {};
  }

 private:
  Duration backoff() const {
    const int doublings = std::clamp(failures_ - 1, 0, 20);
    return std::min(options_.first_backoff * (int64_t{1} << doublings), options_.longest_backoff);
  }

  ApiError given_up(ApiError error) const {
    error.message += fmt::format("; given up after {} tries in {:.0f} s", failures_,
                                 to_seconds(system_clock().now() - heard_at_));
    return error;
  }

  void heard(WatchType type, const json& object) {
    if (handlers_.on_object) handlers_.on_object(type, object);
  }

  ApiStatus list() {
    const auto reset = [this] {
      if (handlers_.on_reset) handlers_.on_reset();
    };
    reset();
    const std::string version = TRY(client_.list(
        kind_, options_.k8s_namespace, options_.list,
        {.each = [this](const json& item) { heard(WatchType::kAdded, item); }, .restart = reset}));
    if (version.empty()) return Error{"cannot " + doing_ + ": its list has no resourceVersion"};
    version_ = version;
    if (handlers_.on_synced) handlers_.on_synced();
    return {};
  }

  std::string target() const {
    const auto limit_s = std::chrono::duration_cast<std::chrono::seconds>(options_.server_limit);
    std::string target = path_of({.kind = kind_, .k8s_namespace = options_.k8s_namespace});
    target +=
        "?watch=true&allowWatchBookmarks=true&timeoutSeconds=" + std::to_string(limit_s.count()) +
        "&resourceVersion=" + net::percent_encode(version_);
    const std::string& labels = options_.list.label_selector;
    const std::string& fields = options_.list.field_selector;
    if (!labels.empty()) target += "&labelSelector=" + net::percent_encode(labels);
    if (!fields.empty()) target += "&fieldSelector=" + net::percent_encode(fields);
    return target;
  }

  ApiStatus watch() {
    std::optional<ApiError> refused;
    bool heard_any = false;
    const TimePoint begun = system_clock().now();
    WatchLines lines([&](WatchType type, const json& object) {
      if (type == WatchType::kError) {
        refused = error_of_status({.doing = doing_}, print_json(object));
        return false;
      }
      failures_ = 0;
      lists_anew_ = false;
      heard_at_ = system_clock().now();
      heard_any = true;
      const std::string version = version_of(object);
      if (!version.empty()) version_ = version;
      if (type != WatchType::kBookmark) heard(type, object);
      return !stop_.stop_requested();
    });
    std::optional<Error> broken;
    const ApiStatus ended = client_.stream(
        target(), doing_,
        [&](std::string_view bytes) {
          const auto more = lines.feed(bytes);
          if (!more.ok()) broken = more.error();
          return more.ok() && *more;
        },
        options_.server_limit + options_.idle_slack, stop_);
    if (refused) return *refused;
    if (broken) {
      // What was lost with the broken line cannot be had by going on.
      version_.clear();
      return Error{"cannot " + doing_ + ": " + broken->message};
    }
    const Duration stood = system_clock().now() - begun;
    if ((ended.ok() || ended.error().broke_off) && stood >= options_.good_watch) {
      failures_ = 0;
      heard_at_ = system_clock().now();
    }
    if (ended.ok() && !heard_any && stood < kShortWatch) {
      return Error{"cannot " + doing_ + ": the server ends it at once"};
    }
    return ended;
  }

  Client& client_;
  const ServedKind& kind_;
  const WatchOptions& options_;
  const WatchHandlers& handlers_;
  const std::stop_token stop_;
  std::string doing_;
  std::string version_;
  int failures_ = 0;  // since heard_at_
  TimePoint heard_at_;
  bool lists_anew_ = false;  // since heard_at_
};

}  // namespace

Result<bool> WatchLines::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    partial_.append(bytes.substr(0, end));
    if (partial_.size() > kMaxLineBytes) {
      return Error{"an event is longer than " + std::to_string(kMaxLineBytes) + " bytes"};
    }
    if (end == std::string_view::npos) return true;
    bytes.remove_prefix(end + 1);
    const bool more = TRY(take(partial_));
    partial_.clear();
    if (!more) return false;
  }
  return true;
}

Result<bool> WatchLines::take(std::string_view line) {
  if (line.find_first_not_of(" \r\t") == std::string_view::npos) return true;
  auto event = parse_json(line, kMaxNesting);
  if (!event || !event->is_object()) return Error{"an event of the watch is not JSON"};
  const auto type = type_of(json_string(*event, "type"));
  const json* object = json_object(*event, "object");
  if (!type || object == nullptr) return Error{"an event of the watch has no type or no object"};
  return on_event_(*type, std::move((*event)["object"]));
}

ApiStatus follow(Client& client, const ServedKind& kind, const WatchOptions& options,
                 const WatchHandlers& handlers, const std::stop_token& stop) {
  return Follower(client, kind, options, handlers, stop).run();
}

}  // namespace shanty::kube
