#include "kube/kubeconfig.h"

#include <algorithm>

#include "base/base64.h"
#include "text/diagnostic.h"
#include "text/utf8.h"
#include "text/yaml_tree.h"

namespace shanty::kube {
namespace {

constexpr YamlLimits kLimits = {.bytes = kMaxKubeconfigBytes,
                                .depth = 32,
                                .nodes = 100'000,
                                .scalar_bytes = size_t{1} << 20,
                                .documents = 1};

// Reads the fields of one mapping and remembers the first thing that is wrong.
class Fields {
 public:
  Fields(const YamlNode& node, const std::string& file, std::string& problem)
      : node_(node), file_(file), problem_(problem) {
    if (node.kind != YamlNode::Kind::kMapping && node.kind != YamlNode::Kind::kNull) {
      complain(node, "expected a mapping, found " + std::string(node.kind_name()));
    }
  }

  const YamlNode* find(std::string_view key) const {
    const YamlNode* value = node_.find(key);
    return value == nullptr || value->kind == YamlNode::Kind::kNull ? nullptr : value;
  }

  std::string text(std::string_view key) const {
    const YamlNode* value = find(key);
    if (value == nullptr) return {};
    if (value->kind == YamlNode::Kind::kScalar) return value->text;
    complain(*value, std::string(key) + " must be text");
    return {};
  }

  bool flag(std::string_view key) const {
    const std::string value = text(key);
    if (value.empty() || value == "false") return false;
    if (value != "true") complain(*find(key), std::string(key) + " must be true or false");
    return value == "true";
  }

  std::string base64(std::string_view key) const {
    std::string value = text(key);
    std::erase_if(value, [](char c) { return c == '\n' || c == '\r' || c == ' '; });
    auto decoded = decode_base64(value);
    if (!decoded) complain(*find(key), std::string(key) + " is not base64");
    return std::move(decoded).value_or("");
  }

  std::string path(std::string_view key) const { return from_file(text(key)); }

  // A path of the file, counted from its directory.
  std::string from_file(const std::string& path) const {
    const size_t slash = file_.rfind('/');
    if (path.empty() || path.starts_with('/') || slash == std::string::npos) return path;
    return file_.substr(0, slash + 1) + path;
  }

  std::vector<std::string> texts(std::string_view key) const {
    std::vector<std::string> out;
    for (const YamlNode* item : items(key)) out.push_back(item->text);
    return out;
  }

  std::vector<const YamlNode*> items(std::string_view key) const {
    std::vector<const YamlNode*> out;
    const YamlNode* list = find(key);
    if (list == nullptr) return out;
    if (list->kind != YamlNode::Kind::kSequence) {
      complain(*list, std::string(key) + " must be a list");
      return out;
    }
    for (const YamlNode& item : list->items) out.push_back(&item);
    return out;
  }

  // A mapping of lists, flat.
  std::vector<std::pair<std::string, std::string>> lists() const {
    std::vector<std::pair<std::string, std::string>> out;
    for (const YamlKey& key : node_.keys) {
      for (std::string& text : texts(key.text)) out.emplace_back(key.text, std::move(text));
    }
    return out;
  }

  Fields inside(std::string_view key) const {
    static const YamlNode kNothing;
    const YamlNode* value = find(key);
    return {value == nullptr ? kNothing : *value, file_, problem_};
  }
  Fields inside(const YamlNode& node) const { return {node, file_, problem_}; }

 private:
  void complain(const YamlNode& node, const std::string& what) const {
    if (!problem_.empty()) return;
    problem_ = format_diagnostic(
        {.file = file_, .line = node.place.line, .column = node.place.column, .message = what});
  }

  const YamlNode& node_;
  const std::string& file_;
  std::string& problem_;
};

ConfiguredCluster read_cluster(const std::string& name, const Fields& cluster) {
  return {.name = name,
          .server = cluster.text("server"),
          .tls_server_name = cluster.text("tls-server-name"),
          .insecure = cluster.flag("insecure-skip-tls-verify"),
          .ca_file = cluster.path("certificate-authority"),
          .ca_pem = cluster.base64("certificate-authority-data"),
          .proxy_url = cluster.text("proxy-url")};
}

ExecPlugin read_exec(const Fields& exec) {
  ExecPlugin plugin{.api_version = exec.text("apiVersion"),
                    .command = exec.text("command"),
                    .args = exec.texts("args"),
                    .install_hint = exec.text("installHint"),
                    .interactive_mode = exec.text("interactiveMode"),
                    .provide_cluster_info = exec.flag("provideClusterInfo")};
  if (plugin.command.find('/') != std::string::npos) {
    plugin.command = exec.from_file(plugin.command);
  }
  if (plugin.interactive_mode.empty()) plugin.interactive_mode = "IfAvailable";
  for (const YamlNode* item : exec.items("env")) {
    const Fields variable = exec.inside(*item);
    plugin.env.emplace_back(variable.text("name"), variable.text("value"));
  }
  return plugin;
}

ConfiguredUser read_user(const std::string& name, const Fields& user) {
  ConfiguredUser out{.name = name,
                     .certificate_file = user.path("client-certificate"),
                     .certificate_pem = user.base64("client-certificate-data"),
                     .key_file = user.path("client-key"),
                     .key_pem = SecretText(user.base64("client-key-data")),
                     .token = SecretText(user.text("token")),
                     .token_file = user.path("tokenFile"),
                     .username = user.text("username"),
                     .password = SecretText(user.text("password")),
                     .auth_provider = user.inside("auth-provider").text("name"),
                     .impersonate = {.user = user.text("as"),
                                     .uid = user.text("as-uid"),
                                     .groups = user.texts("as-groups"),
                                     .extra = user.inside("as-user-extra").lists()}};
  if (user.find("exec") != nullptr) out.exec.push_back(read_exec(user.inside("exec")));
  return out;
}

template <typename Named>
void take_new(std::vector<Named>& known, std::vector<Named> more) {
  for (Named& item : more) {
    if (std::ranges::find(known, item.name, &Named::name) == known.end()) {
      known.push_back(std::move(item));
    }
  }
}

}  // namespace

Result<Kubeconfig> parse_kubeconfig(std::string_view text, const std::string& path) {
  const ParsedYaml yaml = parse_documents(text, path, kLimits);
  for (const Diagnostic& diagnostic : yaml.diagnostics) {
    // What YAML says about a duplicate key or a bad character may quote a value: only its place.
    if (diagnostic.severity == Severity::kError) {
      return Error{format_diagnostic({.file = diagnostic.file,
                                      .line = diagnostic.line,
                                      .column = diagnostic.column,
                                      .message = "this is not the YAML of a kubeconfig"})};
    }
  }
  Kubeconfig config;
  if (yaml.documents.empty()) return config;
  std::string problem;
  const Fields root(yaml.documents.front(), path, problem);
  config.current_context = root.text("current-context");
  for (const YamlNode* item : root.items("clusters")) {
    const Fields entry = root.inside(*item);
    config.clusters.push_back(read_cluster(entry.text("name"), entry.inside("cluster")));
  }
  for (const YamlNode* item : root.items("users")) {
    const Fields entry = root.inside(*item);
    config.users.push_back(read_user(entry.text("name"), entry.inside("user")));
  }
  for (const YamlNode* item : root.items("contexts")) {
    const Fields entry = root.inside(*item);
    const Fields context = entry.inside("context");
    config.contexts.push_back({.name = entry.text("name"),
                               .cluster = context.text("cluster"),
                               .user = context.text("user"),
                               .k8s_namespace = context.text("namespace")});
  }
  if (!problem.empty()) return Error{problem};
  return config;
}

void merge_kubeconfig(Kubeconfig& config, Kubeconfig next) {
  if (config.current_context.empty()) config.current_context = std::move(next.current_context);
  take_new(config.clusters, std::move(next.clusters));
  take_new(config.users, std::move(next.users));
  take_new(config.contexts, std::move(next.contexts));
}

}  // namespace shanty::kube
