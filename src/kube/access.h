#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/secret.h"
#include "kube/kubeconfig.h"
#include "net/http_connection.h"
#include "net/https_trust.h"
#include "net/url.h"

namespace shanty::kube {

struct AccessOptions {
  std::string kubeconfig;     // a file; empty: KUBECONFIG, ~/.kube/config, then the pod we are in
  std::string context;        // empty: the current one
  std::string k8s_namespace;  // empty: the context's, else "default"
  std::vector<std::string> env;  // "NAME=value"
  std::string service_account_dir = "/var/run/secrets/kubernetes.io/serviceaccount";
};

// How to reach one cluster as somebody: one context with all its files read.
struct Access {
  std::string context;  // "" inside a pod
  std::string cluster;
  std::string user;
  std::string k8s_namespace;
  std::string from;  // the files, for messages
  net::Url server;
  std::string server_name;  // that its certificate must carry; empty: the host
  net::HttpsTrust trust;
  std::optional<net::HttpProxy> proxy;
  SecretText token;
  std::string token_file;  // read anew now and then; wins over `token`
  std::string username;
  SecretText password;
  std::optional<ExecPlugin> exec;
  Impersonation impersonate;
  std::vector<std::string> env;  // for the plugin
};

// Errors say which file or context is at fault and what to do; they show no secret.
Result<Access> find_access(const AccessOptions& options);

}  // namespace shanty::kube
