#include "job/parse.h"

#include <cstdio>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "job/keys.h"
#include "job/validate.h"
#include "job/value.h"
#include "text/utf8.h"
#include "text/yaml_tree.h"

namespace shanty {
namespace {

class JobReader {
 public:
  JobReader(const std::string& file_name, ParsedJob& out) : file_(file_name), out_(out) {}

  void read_section(const YamlNode& node, std::string_view section) {
    const std::vector<const Key*> keys = keys_below(section);
    for (size_t i = 0; i < node.items.size(); ++i) {
      const Key* key = find_key(keys, node.keys[i].text);
      if (key == nullptr) {
        report_unknown(node.keys[i], section, keys);
      } else {
        read_key(*key, node.items[i]);
      }
    }
  }

 private:
  static const Key* find_key(const std::vector<const Key*>& keys, std::string_view name) {
    for (const Key* key : keys) {
      if (leaf_of(key->path) == name) return key;
    }
    return nullptr;
  }

  void read_key(const Key& key, const YamlNode& node) {
    if (key.type == KeyType::kSection) {
      if (is_mapping_or_empty(key, node)) read_section(node, key.path);
    } else if (key.type == KeyType::kList) {
      read_list(key, node);
    } else {
      const Status status = read_value(key, node, key.slot(out_.job));
      if (!status.ok()) report(node.place, status.error().message, "");
    }
  }

  // `data` is the only list of mappings; its keys' slots point at the last element.
  void read_list(const Key& key, const YamlNode& node) {
    if (node.kind == YamlNode::Kind::kNull) return;
    if (node.kind != YamlNode::Kind::kSequence) {
      report(node.place,
             fmt::format("{}: expected a list of mappings, found {}", key.path, node.kind_name()),
             fmt::format("start each with a dash: - {{claim: NAME, mount: /PATH}}"));
      return;
    }
    for (const YamlNode& item : node.items) {
      std::get<std::vector<DataMount>*>(key.slot(out_.job))->emplace_back();
      if (is_mapping_or_empty(key, item)) read_section(item, std::string(key.path) + "[]");
    }
  }

  bool is_mapping_or_empty(const Key& key, const YamlNode& node) {
    if (node.kind == YamlNode::Kind::kMapping) return true;
    if (node.kind == YamlNode::Kind::kNull) return false;
    const std::string section = std::string(key.path) + (key.type == KeyType::kList ? "[]" : "");
    const std::string_view first = leaf_of(keys_below(section).front()->path);
    const std::string found =
        node.kind == YamlNode::Kind::kScalar ? in_quotes(node.text) : std::string(node.kind_name());
    report(node.place, fmt::format("{}: expected a mapping, found {}", key.path, found),
           fmt::format("write it as {{{}: ...}}", first));
    return false;
  }

  void report_unknown(const YamlKey& found, std::string_view section,
                      const std::vector<const Key*>& keys) {
    std::vector<std::string_view> names;
    for (const Key* key : keys) names.push_back(leaf_of(key->path));
    std::string message = fmt::format("unknown key {}", in_quotes(found.text));
    std::string hint;
    // What will not be shown needs no guess; this bounds the time a hostile file takes.
    const bool is_shown = out_.diagnostics.size() <= kMaxJobDiagnostics;
    const std::string_view near = is_shown ? nearest_key(found.text, names) : "";
    if (!near.empty()) {
      message += fmt::format(", did you mean \"{}\"?", near);
    } else if (const std::string_view elsewhere = same_leaf(found.text); !elsewhere.empty()) {
      message += fmt::format(" here, did you mean \"{}\"?", elsewhere);
    } else {
      hint = fmt::format("the keys here are {}", fmt::join(names, ", "));
      if (section.empty()) hint += "; shanty schema describes them";
    }
    report(found.place, std::move(message), std::move(hint));
  }

  // A key of that name in another section.
  static std::string_view same_leaf(std::string_view name) {
    for (const Key& key : job_keys()) {
      if (leaf_of(key.path) == name) return key.path;
    }
    return {};
  }

  void report(Place place, std::string message, std::string hint) {
    out_.diagnostics.push_back({.severity = Severity::kError,
                                .file = file_,
                                .line = place.line,
                                .column = place.column,
                                .message = std::move(message),
                                .hint = std::move(hint)});
  }

  const std::string& file_;
  ParsedJob& out_;
};

Diagnostic whole_file_error(const std::string& file_name, std::string message) {
  return {.severity = Severity::kError,
          .file = file_name,
          .message = std::move(message),
          .hint = "shanty init SCRIPT writes a job file to start from"};
}

// "train" of "src/train.py" or "pkg.train", with what a name may not contain replaced.
std::string default_name(const Job& job) {
  std::string stem = job.run.script.empty() ? job.run.module : job.run.script;
  const char separator = job.run.script.empty() ? '.' : '/';
  stem = stem.substr(stem.find_last_of(separator) + 1);
  if (stem.size() > 3 && stem.ends_with(".py")) stem.resize(stem.size() - 3);
  for (char& c : stem) {
    if (!is_job_name(std::string(1, c)) && c != '-' && c != '_' && c != '.') c = '-';
  }
  stem.resize(std::min<size_t>(stem.size(), kMaxJobNameBytes));
  return is_job_name(stem) ? stem : "job";
}

}  // namespace

ParsedJob parse_job(std::string_view text, const std::string& file_name) {
  ParsedJob parsed;
  ParsedYaml yaml = parse_documents(text, file_name);
  parsed.diagnostics = std::move(yaml.diagnostics);
  const bool syntax_ok = parsed.ok();
  if (yaml.documents.empty()) {
    if (syntax_ok) parsed.diagnostics.push_back(whole_file_error(file_name, "the file is empty"));
    return parsed;
  }
  const YamlNode& root = yaml.documents.front();
  if (root.kind != YamlNode::Kind::kMapping) {
    parsed.diagnostics.push_back(whole_file_error(
        file_name, fmt::format("expected a mapping of keys, found {}", root.kind_name())));
    return parsed;
  }
  JobReader(file_name, parsed).read_section(root, "");
  validate_job(parsed.job, root, file_name, parsed.diagnostics);
  if (parsed.job.name.empty()) parsed.job.name = default_name(parsed.job);
  sort_and_limit(parsed.diagnostics, kMaxJobDiagnostics);
  return parsed;
}

Result<std::string> read_job_file(const std::string& path) {
  constexpr size_t kMaxBytes = YamlLimits{}.bytes;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"),
                                                             std::fclose);
  if (file == nullptr) return errno_error("cannot read " + path);
  std::string text(kMaxBytes + 1, '\0');
  const size_t size = std::fread(text.data(), 1, text.size(), file.get());
  if (std::ferror(file.get()) != 0) return errno_error("cannot read " + path);
  if (size > kMaxBytes) return Error{fmt::format("{} is too large for a job file", path)};
  text.resize(size);
  return text;
}

}  // namespace shanty
