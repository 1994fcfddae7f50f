#include "kube/client.h"

#include <condition_variable>
#include <cstring>
#include <mutex>

#include <nlohmann/json.hpp>

#include "base/random.h"
#include "kube/api_error.h"
#include "kube/credentials.h"
#include "kube/discovery.h"
#include "kube/retry.h"
#include "net/address.h"
#include "text/json_fields.h"

namespace shanty::kube {
namespace {

using net::HttpAnswer;
using net::HttpHeader;
using net::HttpRequest;
using nlohmann::json;

constexpr size_t kMaxListRestarts = 3;
constexpr size_t kMaxPages = 100'000;
constexpr size_t kMaxNesting = 128;
constexpr Duration kLogIdleLimit = std::chrono::hours(24 * 7);  // a container may be silent
constexpr const char* kMetadataAccept =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
constexpr const char* kDiscoveryAccept =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

// Appends `name=value` to a target.
void add_query(std::string& target, std::string_view name, std::string_view value) {
  target += target.find('?') == std::string::npos ? '?' : '&';
  target += name;
  target += '=';
  target += net::percent_encode(value);
}

std::string in_namespace(const std::string& k8s_namespace) {
  return k8s_namespace.empty() ? "" : " in namespace " + k8s_namespace;
}

bool wait_on(const std::stop_token& stop, Duration duration) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any changed;
  changed.wait_for(lock, stop, duration, [] { return false; });
  return !stop.stop_requested();
}

Rng seeded() {
  uint64_t seed = 0;
  const std::string bytes = secure_random_bytes(sizeof seed);
  std::memcpy(&seed, bytes.data(), sizeof seed);
  return Rng(seed);
}

std::string base_path(const ServedKind& kind, const std::string& k8s_namespace) {
  std::string path = kind.group.empty() ? "/api/" : "/apis/" + kind.group + "/";
  path += kind.version;
  if (kind.namespaced && !k8s_namespace.empty()) {
    path += "/namespaces/" + net::percent_encode(k8s_namespace);
  }
  return path + "/" + kind.plural;
}

}  // namespace

std::string describe(const ObjectRef& ref) {
  return ref.kind.plural + (ref.name.empty() ? "" : " \"" + ref.name + "\"") +
         in_namespace(ref.k8s_namespace);
}

std::string path_of(const ObjectRef& ref) {
  return base_path(ref.kind, ref.k8s_namespace) +
         (ref.name.empty() ? "" : "/" + net::percent_encode(ref.name));
}

struct Client::Impl {
  Impl(Access wanted, ClientOptions given)
      : access(std::move(wanted)), options(std::move(given)), credentials(access), rng(seeded()) {}

  Attempt attempt(const std::string& doing) const {
    return {.doing = doing,
            .where = access.server.scheme + "://" +
                     net::join_host_port(access.server.host, access.server.port),
            .user = access.user};
  }

  // The client for the certificate of now; made anew when the plugin has given another one.
  Result<std::shared_ptr<net::HttpClient>> http() {
    uint64_t generation = 0;
    const net::HttpsTrust trust = credentials.trust(generation);
    const std::lock_guard lock(mutex);
    if (http_client && http_generation == generation) return http_client;
    http_client = TRY(net::HttpClient::create({.host = access.server.host,
                                               .port = access.server.port,
                                               .tls = access.server.scheme == "https",
                                               .server_name = access.server_name,
                                               .trust = trust,
                                               .proxy = access.proxy,
                                               .limits = options.limits}));
    http_generation = generation;
    return http_client;
  }

  double spread() {
    const std::lock_guard lock(mutex);
    return rng.uniform();
  }

  bool wait(Duration duration) {
    return options.wait ? options.wait(duration) : wait_on(options.stop, duration);
  }

  ApiResult<HttpAnswer> once(HttpRequest request) {
    request.target = access.server.path + request.target;
    if (!request.stop.stop_possible()) request.stop = options.stop;
    const std::vector<HttpHeader> identity = TRY(credentials.headers());
    request.headers.insert(request.headers.end(), identity.begin(), identity.end());
    // Shared: another thread may replace the client when credentials change under this request.
    const std::shared_ptr<net::HttpClient> client = TRY(http());
    return client->request(request);
  }

  ApiResult<HttpAnswer> call(const HttpRequest& request, const std::string& doing,
                             bool repeatable) {
    bool renewed = false;
    for (int number = 1;; ++number) {
      HttpAnswer answer = TRY(once(request));
      if (answer.whole() && answer.status / 100 == 2) return answer;
      if (answer.status == 401 && !renewed && credentials.renew()) {
        renewed = true;
        continue;
      }
      const auto wait_for = wait_before_retry(answer, repeatable, number, options.retry, spread());
      if (!wait_for || !wait(*wait_for)) return error_of(attempt(doing), answer);
    }
  }

  ApiResult<json> parsed(const ApiResult<HttpAnswer>& answer, const std::string& doing) {
    if (!answer.ok()) return answer.error();
    auto value = parse_json(answer->body, kMaxNesting);
    if (value && value->is_object()) return std::move(*value);
    return Error{"cannot " + doing + ": the server answers " + std::to_string(answer->status) +
                 " with something that is no JSON object"};
  }

  ApiResult<HttpAnswer> get(const std::string& target, const std::string& doing,
                            const std::string& accept) {
    return call({.target = target, .headers = {{"Accept", accept}}}, doing, true);
  }

  ApiResult<json> write(HttpRequest request, const std::string& doing, bool repeatable) {
    request.headers.push_back({"Accept", "application/json"});
    return parsed(call(request, doing, repeatable), doing);
  }

  static void add_write_options(std::string& target, const WriteOptions& options) {
    add_query(target, "fieldManager", options.field_manager);
    if (options.dry_run) add_query(target, "dryRun", "All");
  }

  ApiResult<Served> discover(const std::string& root) {
    const std::string doing = "ask what the server serves (" + root + ")";
    const HttpAnswer answer = TRY(get(root, doing, kDiscoveryAccept));
    DiscoveryAnswer found = TRY(parse_discovery(answer.body).context("cannot " + doing));
    if (found.aggregated) return std::move(found.served);
    Served served;
    for (const std::string& path : found.to_ask) {
      const auto list = call({.target = path, .headers = {{"Accept", "application/json"}}},
                             "ask what " + path + " serves", true);
      if (list.ok() && add_resource_list(list->body, served).ok()) continue;
      served.gaps.push_back(path.substr(path.find('/', 1) + 1));
    }
    return served;
  }

  ApiResult<ObjectRef> place_of(Client& client, const json& object) {
    const std::string api_version = json_string(object, "apiVersion");
    const std::string kind_name = json_string(object, "kind");
    const json* metadata = json_object(object, "metadata");
    if (metadata == nullptr) return Error{"an object without metadata cannot be sent"};
    const std::string name = json_string(*metadata, "name");
    const size_t slash = api_version.find('/');
    const std::string group = slash == std::string::npos ? "" : api_version.substr(0, slash);
    const std::string version =
        slash == std::string::npos ? api_version : api_version.substr(slash + 1);
    const auto served = TRY(client.kinds());
    for (const ServedKind& kind : served) {
      if (kind.group != group || kind.version != version || kind.kind != kind_name) continue;
      ObjectRef ref{.kind = kind, .name = name};
      if (!kind.namespaced) return ref;
      ref.k8s_namespace = json_string(*metadata, "namespace", access.k8s_namespace);
      return ref;
    }
    ApiError error;
    error.status = 404;
    error.reason = "NotFound";
    error.message = "the cluster does not serve " + kind_name + " of " + api_version +
                    ": install what brings it, or choose another target";
    return error;
  }

  const Access access;
  const ClientOptions options;
  Credentials credentials;
  std::mutex mutex;
  std::shared_ptr<net::HttpClient> http_client;  // shared with the requests in flight
  uint64_t http_generation = 0;
  Rng rng;
  std::mutex discovery_mutex;
  std::optional<Served> discovered;
};

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

Result<std::unique_ptr<Client>> Client::create(Access access, ClientOptions options) {
  auto impl = std::make_unique<Impl>(std::move(access), std::move(options));
  if (!impl->access.exec) TRY(impl->http().context("cluster \"" + impl->access.cluster + "\""));
  return std::unique_ptr<Client>(new Client(std::move(impl)));
}

const Access& Client::access() const { return impl_->access; }
bool Client::wait(Duration duration) { return impl_->wait(duration); }

ApiResult<std::vector<ServedKind>> Client::kinds() {
  const std::lock_guard lock(impl_->discovery_mutex);
  if (!impl_->discovered) {
    Served all = TRY(impl_->discover("/api"));
    Served groups = TRY(impl_->discover("/apis"));
    all.kinds.insert(all.kinds.end(), groups.kinds.begin(), groups.kinds.end());
    all.gaps.insert(all.gaps.end(), groups.gaps.begin(), groups.gaps.end());
    impl_->discovered = std::move(all);
  }
  return impl_->discovered->kinds;
}

std::vector<std::string> Client::gaps() {
  const std::lock_guard lock(impl_->discovery_mutex);
  return impl_->discovered ? impl_->discovered->gaps : std::vector<std::string>();
}

ApiResult<ServedKind> Client::kind(const std::string& group, const std::string& kind) {
  const auto served = TRY(kinds());
  for (const ServedKind& each : served) {
    if (each.group == group && each.kind == kind) return each;
  }
  ApiError error;
  error.status = 404;
  error.reason = "NotFound";
  error.message = "the cluster does not serve " + kind + (group.empty() ? "" : " of " + group);
  return error;
}

ApiResult<json> Client::get(const ObjectRef& ref) {
  const std::string doing = "get " + describe(ref);
  return impl_->parsed(impl_->get(path_of(ref), doing, "application/json"), doing);
}

ApiResult<std::string> Client::list(const ServedKind& kind, const std::string& k8s_namespace,
                                    const ListOptions& options, const ListSink& sink) {
  const std::string doing = "list " + kind.plural + in_namespace(k8s_namespace);
  std::string resume;
  size_t items = 0;
  size_t restarts = 0;
  for (size_t page = 0; page < kMaxPages; ++page) {
    std::string target = base_path(kind, k8s_namespace);
    add_query(target, "limit", std::to_string(options.page_size));
    if (!options.label_selector.empty()) add_query(target, "labelSelector", options.label_selector);
    if (!options.field_selector.empty()) add_query(target, "fieldSelector", options.field_selector);
    if (!resume.empty()) add_query(target, "continue", resume);
    const char* accept = options.metadata_only ? kMetadataAccept : "application/json";
    auto answer = impl_->parsed(impl_->get(target, doing, accept), doing);
    if (!answer.ok()) {
      if (!answer.error().is_expired() || resume.empty() || ++restarts > kMaxListRestarts) {
        return answer.error();
      }
      resume.clear();
      items = 0;
      if (sink.restart) sink.restart();
      continue;
    }
    json& body = *answer;
    const bool has_items = body.contains("items") && body["items"].is_array();
    if (!has_items && !(body.contains("items") && body["items"].is_null())) {
      return Error{"cannot " + doing + ": the server answers with something that is no list"};
    }
    const size_t count = has_items ? body["items"].size() : 0;
    items += count;
    if (items > options.max_items) {
      return Error{"cannot " + doing + ": there are more than " +
                   std::to_string(options.max_items) + ": select some by label or namespace"};
    }
    for (size_t i = 0; i < count; ++i) {
      json& item = body["items"][i];
      if (item.is_object()) sink.each(std::move(item));
    }
    const json* metadata = json_object(body, "metadata");
    const json none = json::object();
    const std::string next = json_string(metadata ? *metadata : none, "continue");
    if (next.empty()) return json_string(metadata ? *metadata : none, "resourceVersion");
    if (next == resume && count == 0) break;
    resume = next;
  }
  return Error{"cannot " + doing + ": the server's pages do not come to an end"};
}

ApiResult<json> Client::apply(const json& object, const WriteOptions& options) {
  const ObjectRef ref = TRY(impl_->place_of(*this, object));
  if (ref.name.empty()) return Error{"cannot apply " + describe(ref) + ": an object has no name"};
  HttpRequest request{.method = "PATCH", .target = path_of(ref), .body = print_json(object)};
  Impl::add_write_options(request.target, options);
  add_query(request.target, "fieldValidation", "Strict");
  if (options.force) add_query(request.target, "force", "true");
  request.headers = {{"Content-Type", "application/apply-patch+yaml"}};
  return impl_->write(std::move(request), "apply " + describe(ref), true);
}

ApiResult<json> Client::create_object(const json& object, const WriteOptions& options) {
  const ObjectRef ref = TRY(impl_->place_of(*this, object));
  HttpRequest request{.method = "POST",
                      .target = base_path(ref.kind, ref.k8s_namespace),
                      .body = print_json(object)};
  Impl::add_write_options(request.target, options);
  add_query(request.target, "fieldValidation", "Strict");
  request.headers = {{"Content-Type", "application/json"}};
  return impl_->write(std::move(request), "create " + describe(ref), options.dry_run);
}

ApiResult<json> Client::merge_patch(const ObjectRef& ref, const json& patch,
                                    const WriteOptions& options) {
  HttpRequest request{.method = "PATCH", .target = path_of(ref), .body = print_json(patch)};
  Impl::add_write_options(request.target, options);
  request.headers = {{"Content-Type", "application/merge-patch+json"}};
  return impl_->write(std::move(request), "change " + describe(ref), true);
}

ApiStatus Client::remove(const ObjectRef& ref, Propagation propagation,
                         std::optional<uint64_t> grace_s) {
  const char* policy = propagation == Propagation::kForeground   ? "Foreground"
                       : propagation == Propagation::kBackground ? "Background"
                                                                 : "Orphan";
  json body = {{"apiVersion", "v1"}, {"kind", "DeleteOptions"}, {"propagationPolicy", policy}};
  if (grace_s) body["gracePeriodSeconds"] = *grace_s;
  HttpRequest request{.method = "DELETE", .target = path_of(ref), .body = print_json(body)};
  request.headers = {{"Content-Type", "application/json"}};
  const auto answer = impl_->write(std::move(request), "delete " + describe(ref), true);
  if (answer.ok() || answer.error().is_not_found()) return {};
  return answer.error();
}

ApiStatus Client::logs(const std::string& k8s_namespace, const std::string& pod,
                       const LogOptions& options,
                       const std::function<bool(std::string_view)>& on_data) {
  std::string target = "/api/v1/namespaces/" + net::percent_encode(k8s_namespace) + "/pods/" +
                       net::percent_encode(pod) + "/log";
  if (!options.container.empty()) add_query(target, "container", options.container);
  if (options.follow) add_query(target, "follow", "true");
  if (options.previous) add_query(target, "previous", "true");
  if (options.timestamps) add_query(target, "timestamps", "true");
  if (options.tail_lines) add_query(target, "tailLines", std::to_string(*options.tail_lines));
  if (options.since_s) add_query(target, "sinceSeconds", std::to_string(*options.since_s));
  return stream(target, "read the log of pod \"" + pod + "\"" + in_namespace(k8s_namespace),
                on_data, options.follow ? kLogIdleLimit : impl_->options.limits.idle);
}

ApiResult<std::string> Client::get_text(const std::string& target, const std::string& doing,
                                        const std::string& accept) {
  return TRY(impl_->get(target, doing, accept)).body;
}

ApiStatus Client::stream(const std::string& target, const std::string& doing,
                         const std::function<bool(std::string_view)>& on_data, Duration idle_limit,
                         const std::stop_token& stop) {
  bool reader_done = false;
  HttpRequest request{.target = target, .stop = stop, .idle_limit = idle_limit};
  request.headers = {{"Accept", "application/json, */*"}};
  request.on_data = [&](std::string_view piece) {
    reader_done = !on_data(piece);
    return !reader_done;
  };
  for (bool renewed = false;; renewed = true) {
    const HttpAnswer answer = TRY(impl_->once(request));
    if (reader_done || (answer.whole() && answer.status / 100 == 2)) return {};
    if (answer.status == 401 && !renewed && impl_->credentials.renew()) continue;
    return error_of(impl_->attempt(doing), answer);
  }
}

}  // namespace shanty::kube
