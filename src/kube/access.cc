#include "kube/access.h"

#include <algorithm>

#include "net/address.h"
#include "net/proxy_choice.h"
#include "os/files.h"
#include "os/process.h"
#include "text/diagnostic.h"

namespace shanty::kube {
namespace {

constexpr size_t kMaxCredentialBytes = size_t{1} << 20;
constexpr size_t kMaxKubeconfigFiles = 64;

std::string variable(const std::vector<std::string>& env, const std::string& name) {
  const std::string* found = find_variable(env, name);
  return found == nullptr ? "" : found->substr(name.size() + 1);
}

struct Loaded {
  Kubeconfig config;
  std::string from;
  bool found = false;
};

Status load(const std::string& path, Loaded& into) {
  const std::string text =
      TRY(read_file(path, kMaxKubeconfigBytes).context("reading the kubeconfig"));
  merge_kubeconfig(into.config, TRY(parse_kubeconfig(text, path)));
  into.from += (into.from.empty() ? "" : ":") + path;
  into.found = true;
  return {};
}

// Files that KUBECONFIG names and that are not there are left out, as kubectl does.
Result<Loaded> load_kubeconfig(const AccessOptions& options) {
  Loaded loaded;
  if (!options.kubeconfig.empty()) {
    TRY_STATUS(load(options.kubeconfig, loaded));
    return loaded;
  }
  std::string list = variable(options.env, "KUBECONFIG");
  if (list.empty()) {
    const std::string home = variable(options.env, "HOME");
    if (!home.empty()) list = home + "/.kube/config";
  }
  size_t files = 0;
  for (size_t begin = 0; begin < list.size() && files < kMaxKubeconfigFiles; ++files) {
    const size_t end = std::min(list.find(':', begin), list.size());
    const std::string path = list.substr(begin, end - begin);
    if (!path.empty() && file_exists(path)) TRY_STATUS(load(path, loaded));
    begin = end + 1;
  }
  return loaded;
}

template <typename Named>
Result<Named> find_named(const std::vector<Named>& all, const std::string& name,
                         const std::string& what, const std::string& from) {
  const auto found = std::ranges::find(all, name, &Named::name);
  if (found != all.end()) return *found;
  std::vector<std::string_view> names;
  for (const Named& item : all) names.push_back(item.name);
  const std::string_view near = nearest_key(name, names);
  std::string message = from + " has no " + what + " \"" + name + "\"";
  if (!near.empty()) {
    message += ", did you mean \"" + std::string(near) + "\"?";
  } else if (!names.empty()) {
    message += "; it has";
    for (size_t i = 0; i < std::min<size_t>(names.size(), 8); ++i) {
      message += (i == 0 ? " \"" : ", \"") + std::string(names[i]) + "\"";
    }
  }
  return Error{message};
}

Result<std::string> data_or_file(const std::string& data, const std::string& file,
                                 const char* what) {
  if (!data.empty() || file.empty()) return data;
  return read_file(file, kMaxCredentialBytes).context(std::string("reading ") + what);
}

Result<net::Url> parse_server(const std::string& text) {
  net::Url url =
      TRY(net::parse_url(text.find("://") == std::string::npos ? "https://" + text : text));
  if (url.scheme == "https" || url.scheme == "http") return url;
  return Error{"the server's URL has the scheme \"" + url.scheme + "\": expected https"};
}

Status take_cluster(const ConfiguredCluster& cluster, Access& access) {
  if (cluster.server.empty()) {
    return Error{"cluster \"" + cluster.name + "\" of " + access.from + " has no server"};
  }
  access.server = TRY(parse_server(cluster.server).context("cluster \"" + cluster.name + "\""));
  access.server_name = cluster.tls_server_name;
  access.trust.insecure = cluster.insecure;
  access.trust.ca_pem =
      TRY(data_or_file(cluster.ca_pem, cluster.ca_file, "the cluster's certificate authority"));
  if (cluster.insecure && !access.trust.ca_pem.empty()) {
    return Error{"cluster \"" + cluster.name +
                 "\" has both a certificate authority and insecure-skip-tls-verify: remove one"};
  }
  if (!cluster.proxy_url.empty()) {
    access.proxy = TRY(net::parse_proxy(cluster.proxy_url).context("proxy-url of the cluster"));
  } else {
    access.proxy = TRY(net::proxy_of_environment(access.env, access.server));
  }
  return {};
}

Status take_user(const ConfiguredUser& user, Access& access) {
  if (!user.auth_provider.empty()) {
    return Error{"user \"" + user.name + "\" uses the auth-provider \"" + user.auth_provider +
                 "\", which Kubernetes removed in 1.26: give it an exec plugin "
                 "(gke-gcloud-auth-plugin, kubelogin, aws eks get-token, ...)"};
  }
  access.trust.certificate_pem =
      TRY(data_or_file(user.certificate_pem, user.certificate_file, "the client certificate"));
  access.trust.key_pem = SecretText(
      TRY(data_or_file(user.key_pem.reveal(), user.key_file, "the key of the client certificate")));
  access.token = user.token;
  access.token_file = user.token_file;
  access.username = user.username;
  access.password = user.password;
  access.impersonate = user.impersonate;
  if (user.exec.empty()) return {};
  const ExecPlugin& plugin = user.exec.front();
  if (plugin.command.empty())
    return Error{"user \"" + user.name + "\" has an exec without command"};
  if (plugin.api_version != "client.authentication.k8s.io/v1" &&
      plugin.api_version != "client.authentication.k8s.io/v1beta1") {
    return Error{"the exec plugin of user \"" + user.name + "\" has apiVersion \"" +
                 plugin.api_version +
                 "\": client.authentication.k8s.io/v1 and v1beta1 exist; update the plugin and "
                 "write its kubeconfig anew"};
  }
  access.exec = plugin;
  return {};
}

Result<Access> access_in_pod(const AccessOptions& options) {
  const std::string& directory = options.service_account_dir;
  Access access{.cluster = "in-cluster", .user = "the pod's service account", .from = directory};
  const std::string host = variable(options.env, "KUBERNETES_SERVICE_HOST");
  const std::string port = variable(options.env, "KUBERNETES_SERVICE_PORT");
  const bool ipv6 = host.find(':') != std::string::npos;
  access.server = TRY(parse_server("https://" + (ipv6 ? "[" + host + "]" : host) + ":" +
                                   (port.empty() ? "443" : port)));
  access.trust.ca_pem = TRY(read_file(directory + "/ca.crt", kMaxCredentialBytes));
  access.token_file = directory + "/token";
  const auto k8s_namespace = read_file(directory + "/namespace", kMaxCredentialBytes);
  if (k8s_namespace.ok()) access.k8s_namespace = *k8s_namespace;
  access.env = options.env;
  return access;
}

}  // namespace

Result<Access> find_access(const AccessOptions& options) {
  const Loaded loaded = TRY(load_kubeconfig(options));
  const Kubeconfig& config = loaded.config;
  const bool in_pod = !variable(options.env, "KUBERNETES_SERVICE_HOST").empty() &&
                      file_exists(options.service_account_dir + "/token");
  Access access;
  if (!loaded.found && in_pod && options.context.empty()) {
    access = TRY(access_in_pod(options));
  } else {
    if (!loaded.found) {
      return Error{
          "there is no kubeconfig: set KUBECONFIG, write ~/.kube/config or pass --kubeconfig"};
    }
    access.from = loaded.from;
    access.env = options.env;
    access.context = options.context.empty() ? config.current_context : options.context;
    if (access.context.empty()) {
      return Error{access.from + " has no current-context: choose one with --context"};
    }
    const auto context = TRY(find_named(config.contexts, access.context, "context", access.from));
    access.cluster = context.cluster;
    access.user = context.user;
    access.k8s_namespace = context.k8s_namespace;
    TRY_STATUS(take_cluster(
        TRY(find_named(config.clusters, context.cluster, "cluster", access.from)), access));
    // Who listens on an open line is told no secret, as with kubectl.
    if (!context.user.empty() && access.server.scheme == "https") {
      TRY_STATUS(
          take_user(TRY(find_named(config.users, context.user, "user", access.from)), access));
    }
  }
  if (!options.k8s_namespace.empty()) access.k8s_namespace = options.k8s_namespace;
  if (access.k8s_namespace.empty()) access.k8s_namespace = "default";
  return access;
}

}  // namespace shanty::kube
