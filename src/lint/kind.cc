#include "lint/kind.h"

#include <algorithm>
#include <string>

namespace shanty::lint {
namespace {

std::string lower_base_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  std::string name(slash == path.npos ? path : path.substr(slash + 1));
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return name;
}

bool is_dockerfile_name(std::string_view name) {
  return name == "dockerfile" || name == "containerfile" || name.starts_with("dockerfile.") ||
         name.starts_with("dockerfile-") || name.ends_with(".dockerfile") ||
         name.ends_with("dockerfile") || name.starts_with("containerfile.");
}

bool is_shell_name(std::string_view name) {
  for (std::string_view end : {".sh", ".bash", ".sbatch", ".slurm"}) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

bool is_yaml_name(std::string_view name) {
  return name.ends_with(".yaml") || name.ends_with(".yml") || name.ends_with(".json") ||
         name == "kustomization";
}

// A key that starts a line (in JSON: that stands in quotes).
bool has_key(std::string_view text, std::string_view key) {
  for (size_t at = text.find(key); at != text.npos; at = text.find(key, at + 1)) {
    const char before = at == 0 ? '\n' : text[at - 1];
    size_t after = at + key.size();
    if (before == '"' && after < text.size() && text[after] == '"') ++after;
    const bool begins = before == '\n' || before == '"' || before == ' ' || before == '\t' ||
                        before == '{' || (at == 3 && text.starts_with("\xef\xbb\xbf"));
    while (after < text.size() && text[after] == ' ') ++after;
    if (begins && after < text.size() && text[after] == ':') return true;
  }
  return false;
}

bool has_top_key(std::string_view text, std::string_view key) {
  const std::string with_colon = std::string(key) + ":";
  return text.starts_with(with_colon) || text.find("\n" + with_colon) != text.npos;
}

std::optional<SourceKind> kind_of_yaml(std::string_view name, std::string_view text) {
  if (name.starts_with("kustomization")) return SourceKind::kManifest;
  if (has_key(text, "apiVersion") && has_key(text, "kind")) return SourceKind::kManifest;
  const bool is_job = has_top_key(text, "run") && text.find("script:") != text.npos;
  const bool has_jobs_keys =
      has_top_key(text, "job") || has_top_key(text, "nodes") || has_top_key(text, "gpus_per_node");
  if (is_job || (has_top_key(text, "run") && has_jobs_keys)) return SourceKind::kJobFile;
  return {};
}

std::optional<SourceKind> kind_by_first_line(std::string_view text) {
  const std::string_view first = text.substr(0, text.find('\n'));
  if (!first.starts_with("#!")) return {};
  if (first.find("python") != first.npos) return SourceKind::kPython;
  if (first.ends_with("sh") || first.find("sh ") != first.npos || first.ends_with("sh\r"))
    return SourceKind::kShell;
  return {};
}

// For standard input, whose name says nothing.
std::optional<SourceKind> kind_by_content(std::string_view text) {
  if (const auto kind = kind_by_first_line(text)) return kind;
  if (const auto kind = kind_of_yaml("", text)) return kind;
  if (text.starts_with("FROM ") || text.find("\nFROM ") != text.npos)
    return SourceKind::kDockerfile;
  if (text.find("import ") != text.npos) return SourceKind::kPython;
  return {};
}

}  // namespace

bool may_be_source(std::string_view name) {
  const std::string base = lower_base_name(name);
  return is_yaml_name(base) || is_dockerfile_name(base) || is_shell_name(base) ||
         base.ends_with(".py") || base.find('.') == std::string::npos;
}

std::optional<SourceKind> kind_of(std::string_view name, std::string_view text) {
  const std::string base = lower_base_name(name);
  if (base == "-" || base == "<stdin>") return kind_by_content(text);
  if (base.ends_with(".py")) return SourceKind::kPython;
  if (is_yaml_name(base)) return kind_of_yaml(base, text);
  if (is_dockerfile_name(base)) return SourceKind::kDockerfile;
  if (is_shell_name(base)) return SourceKind::kShell;
  return kind_by_first_line(text);
}

}  // namespace shanty::lint
