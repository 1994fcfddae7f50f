#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/secret.h"

namespace shanty::kube {

// kubeconfig files as plain data. Paths in them are absolute here: they count from their file.

struct ConfiguredCluster {
  std::string name;
  std::string server;
  std::string tls_server_name;
  bool insecure = false;
  std::string ca_file;
  std::string ca_pem;
  std::string proxy_url;
};

// `users[].user.exec`: a program that hands out credentials.
struct ExecPlugin {
  std::string api_version;  // "client.authentication.k8s.io/v1"
  std::string command;
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;
  std::string install_hint;
  std::string interactive_mode;  // "Never", "IfAvailable", "Always"
  bool provide_cluster_info = false;
};

// As whom requests are made instead; all empty: as oneself.
struct Impersonation {
  std::string user;
  std::string uid;
  std::vector<std::string> groups;
  std::vector<std::pair<std::string, std::string>> extra;  // a key may come several times
};

struct ConfiguredUser {
  std::string name;
  std::string certificate_file;
  std::string certificate_pem;
  std::string key_file;
  SecretText key_pem;
  SecretText token;
  std::string token_file;
  std::string username;
  SecretText password;
  std::string auth_provider;  // of a kind that Kubernetes has given up
  Impersonation impersonate;
  std::vector<ExecPlugin> exec;  // one or none
};

struct ConfiguredContext {
  std::string name;
  std::string cluster;
  std::string user;
  std::string k8s_namespace;
};

struct Kubeconfig {
  std::vector<ConfiguredCluster> clusters;
  std::vector<ConfiguredUser> users;
  std::vector<ConfiguredContext> contexts;
  std::string current_context;
};

inline constexpr size_t kMaxKubeconfigBytes = size_t{4} << 20;

// `text` stood in the file `path`. Errors name the place and never a value.
Result<Kubeconfig> parse_kubeconfig(std::string_view text, const std::string& path);

// Takes over from `next` what `config` does not name yet.
void merge_kubeconfig(Kubeconfig& config, Kubeconfig next);

}  // namespace shanty::kube
