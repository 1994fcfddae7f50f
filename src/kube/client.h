#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/clock.h"
#include "cluster/kubernetes_offer.h"
#include "kube/access.h"
#include "kube/api_result.h"
#include "net/http_client.h"

namespace shanty::kube {

// How often and how long a request is tried again.
struct RetryLimits {
  int attempts = 5;
  Duration first_wait = std::chrono::milliseconds(250);  // doubled each time
  Duration longest_wait = std::chrono::seconds(10);      // also of what Retry-After asks for
};

struct ClientOptions {
  net::HttpLimits limits;
  RetryLimits retry;
  std::stop_token stop;  // ends every request and wait
  // Waits; false when it was told to stop. Replaced in tests.
  std::function<bool(Duration)> wait;
};

// One object's place. An empty namespace stands for all of them, or for kinds without.
struct ObjectRef {
  ServedKind kind;
  std::string k8s_namespace;
  std::string name;
};
// "pods \"x\" in namespace ml".
std::string describe(const ObjectRef& ref);
// "/apis/batch/v1/namespaces/ml/jobs/x".
std::string path_of(const ObjectRef& ref);

struct ListOptions {
  std::string label_selector;
  std::string field_selector;
  size_t page_size = 500;
  size_t max_items = 500'000;
  bool metadata_only = false;  // names and labels, but nothing of what is inside
};

struct WriteOptions {
  std::string field_manager = "shanty";
  bool force = false;    // apply: takes fields over from other managers
  bool dry_run = false;  // all checks and webhooks, nothing stored
};

enum class Propagation { kBackground, kForeground, kOrphan };

struct LogOptions {
  std::string container;  // empty: the only one
  bool follow = false;
  bool previous = false;
  bool timestamps = false;
  std::optional<uint64_t> tail_lines;
  std::optional<uint64_t> since_s;
};

// A client of one Kubernetes API server. Any thread; each call blocks its own. Requests that may be
// repeated are, within RetryLimits; the errors of all others are final.
class Client {
 public:
  // Reads certificates; does not connect yet.
  static Result<std::unique_ptr<Client>> create(Access access, ClientOptions options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const Access& access() const;

  // All that is served, asked once and remembered. A group whose server is down is left out and
  // named in `gaps`.
  ApiResult<std::vector<ServedKind>> kinds();
  std::vector<std::string> gaps();
  // The version to prefer of a kind; an error with status 404 when there is none.
  ApiResult<ServedKind> kind(const std::string& group, const std::string& kind);

  ApiResult<nlohmann::json> get(const ObjectRef& ref);
  // Hands all items to `each`, page after page; begins anew (`restart`, then all again) when the
  // server has forgotten the list in the middle. Returns the list's resourceVersion.
  struct ListSink {
    std::function<void(nlohmann::json item)> each;
    std::function<void()> restart;
  };
  ApiResult<std::string> list(const ServedKind& kind, const std::string& k8s_namespace,
                              const ListOptions& options, const ListSink& sink);

  // Server-side apply of any object with apiVersion, kind and name; into `access().k8s_namespace`
  // where it names none. Returns what is stored.
  ApiResult<nlohmann::json> apply(const nlohmann::json& object, const WriteOptions& options = {});
  // Creates it, strictly: unknown fields are errors.
  ApiResult<nlohmann::json> create_object(const nlohmann::json& object,
                                          const WriteOptions& options = {});
  // A merge patch (RFC 7386).
  ApiResult<nlohmann::json> merge_patch(const ObjectRef& ref, const nlohmann::json& patch,
                                        const WriteOptions& options = {});
  // What is already gone is no error.
  ApiStatus remove(const ObjectRef& ref, Propagation propagation = Propagation::kBackground,
                   std::optional<uint64_t> grace_s = std::nullopt);

  // The output of a container as it comes, until it ends or `on_data` says false.
  ApiStatus logs(const std::string& k8s_namespace, const std::string& pod,
                 const LogOptions& options, const std::function<bool(std::string_view)>& on_data);

  // Any GET, with the retries of all others: "/version", "/readyz".
  ApiResult<std::string> get_text(const std::string& target, const std::string& doing,
                                  const std::string& accept = "application/json");
  // One GET whose body is streamed, tried once; twice where credentials can be renewed. `stop`
  // instead of ClientOptions::stop.
  ApiStatus stream(const std::string& target, const std::string& doing,
                   const std::function<bool(std::string_view)>& on_data, Duration idle_limit,
                   const std::stop_token& stop = {});
  // Waits as told; false when it was told to stop.
  bool wait(Duration duration);

 private:
  struct Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace shanty::kube
