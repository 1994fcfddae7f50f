#include "kube/exec_credential.h"

#include <unistd.h>

#include <chrono>

#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "base/signal_name.h"
#include "kube/rfc3339.h"
#include "net/address.h"
#include "os/capture.h"
#include "text/json_fields.h"

namespace shanty::kube {
namespace {

using nlohmann::json;

constexpr Duration kMaxPluginTime = std::chrono::seconds(120);  // a login in a browser
constexpr size_t kMaxPluginBytes = size_t{1} << 20;

std::string base_url(const net::Url& url) {
  return url.scheme + "://" + net::join_host_port(url.host, url.port) + url.path;
}

}  // namespace

std::string exec_info(const Access& access, bool interactive) {
  json spec = {{"interactive", interactive}};
  if (access.exec->provide_cluster_info) {
    json& cluster = spec["cluster"];
    cluster["server"] = base_url(access.server);
    if (!access.server_name.empty()) cluster["tls-server-name"] = access.server_name;
    if (access.trust.insecure) cluster["insecure-skip-tls-verify"] = true;
    if (!access.trust.ca_pem.empty()) {
      cluster["certificate-authority-data"] = encode_base64(access.trust.ca_pem);
    }
  }
  return print_json({{"apiVersion", access.exec->api_version},
                     {"kind", "ExecCredential"},
                     {"spec", std::move(spec)}});
}

Result<ExecCredential> parse_exec_credential(std::string_view text, std::string_view api_version) {
  const auto parsed = parse_json(text);
  if (!parsed || !parsed->is_object()) return Error{"what it printed is not JSON"};
  if (json_string(*parsed, "kind") != "ExecCredential") {
    return Error{"what it printed is no ExecCredential"};
  }
  if (json_string(*parsed, "apiVersion") != api_version) {
    return Error{"it answers in another version than the " + std::string(api_version) +
                 " it was asked for"};
  }
  const json* status = json_object(*parsed, "status");
  if (status == nullptr) return Error{"its ExecCredential has no status"};
  ExecCredential credential{.token = SecretText(json_string(*status, "token")),
                            .certificate_pem = json_string(*status, "clientCertificateData"),
                            .key_pem = SecretText(json_string(*status, "clientKeyData"))};
  if (credential.token.empty() && credential.certificate_pem.empty()) {
    return Error{"its ExecCredential holds neither a token nor a client certificate"};
  }
  if (credential.certificate_pem.empty() != credential.key_pem.empty()) {
    return Error{"its ExecCredential holds a client certificate without key, or the reverse"};
  }
  const std::string expires = json_string(*status, "expirationTimestamp");
  if (!expires.empty()) {
    credential.expires_unix_s = parse_rfc3339_s(expires);
    if (!credential.expires_unix_s) return Error{"its expirationTimestamp is no time"};
  }
  return credential;
}

Result<ExecCredential> run_exec_plugin(const Access& access) {
  const ExecPlugin& plugin = *access.exec;
  const std::string what =
      "getting credentials for user \"" + access.user + "\" from " + plugin.command;
  const std::string hint = plugin.install_hint.empty() ? "" : "; " + plugin.install_hint;
  const bool interactive = plugin.interactive_mode != "Never" && ::isatty(STDIN_FILENO) == 1;
  if (plugin.interactive_mode == "Always" && !interactive) {
    return Error{what + ": it needs a terminal to ask on, and there is none"};
  }
  SpawnOptions options{.argv = {plugin.command}, .env = access.env};
  options.argv.insert(options.argv.end(), plugin.args.begin(), plugin.args.end());
  for (const auto& [name, value] : plugin.env) set_variable(options.env, name, value);
  set_variable(options.env, "KUBERNETES_EXEC_INFO", exec_info(access, interactive));
  auto ran = run_captured(options, {.output_bytes = kMaxPluginBytes, .time = kMaxPluginTime});
  if (!ran.ok()) return Error{what + ": " + ran.error().message + hint};
  if (ran->signal != 0) return Error{what + ": it was ended by " + signal_name(ran->signal)};
  if (ran->exit_code != 0) {
    return Error{what + ": it failed with exit code " + std::to_string(ran->exit_code) +
                 ": run it by hand to see why, or log in anew" + hint};
  }
  return parse_exec_credential(ran->output, plugin.api_version).context(what);
}

}  // namespace shanty::kube
