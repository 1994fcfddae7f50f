#include "kube/exec_credential.h"

#include <unistd.h>

#include <charconv>
#include <chrono>

#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "net/address.h"
#include "os/capture.h"
#include "text/json_fields.h"

namespace shanty::kube {
namespace {

using nlohmann::json;

constexpr Duration kMaxPluginTime = std::chrono::seconds(120);  // a login in a browser
constexpr size_t kMaxPluginBytes = size_t{1} << 20;

std::optional<int> digits(std::string_view text, size_t at, size_t count) {
  int value = 0;
  if (at + count > text.size()) return std::nullopt;
  const char* begin = text.data() + at;
  const auto parsed = std::from_chars(begin, begin + count, value);
  if (parsed.ec != std::errc() || parsed.ptr != begin + count || value < 0) return std::nullopt;
  return value;
}

std::string base_url(const net::Url& url) {
  return url.scheme + "://" + net::join_host_port(url.host, url.port) + url.path;
}

}  // namespace

std::optional<int64_t> parse_rfc3339_s(std::string_view text) {
  const auto year = digits(text, 0, 4);
  const auto month = digits(text, 5, 2);
  const auto day = digits(text, 8, 2);
  const auto hour = digits(text, 11, 2);
  const auto minute = digits(text, 14, 2);
  const auto second = digits(text, 17, 2);
  if (!year || !month || !day || !hour || !minute || !second || text.size() < 20) return {};
  if (text[4] != '-' || text[7] != '-' || text[13] != ':' || text[16] != ':') return {};
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60) return {};
  int64_t offset_s = 0;
  size_t at = 19;
  if (text[at] == '.') {
    for (++at; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    }
  }
  const std::string_view zone = text.substr(at);
  if (zone != "Z" && zone != "z") {
    const auto zone_hour = digits(zone, 1, 2);
    const auto zone_minute = digits(zone, 4, 2);
    if (zone.size() != 6 || !zone_hour || !zone_minute || (zone[0] != '+' && zone[0] != '-')) {
      return {};
    }
    offset_s = (zone[0] == '-' ? -60 : 60) * (*zone_hour * 60 + *zone_minute);
  }
  const int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return days * 86400 + *hour * 3600 + *minute * 60 + *second - offset_s;
}

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
