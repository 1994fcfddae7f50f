#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "causes/finding.h"
#include "lint/manifest/workload.h"
#include "lint/source.h"
#include "text/yaml_tree.h"

namespace shanty::lint {

// One file of manifests. Its objects borrow its documents and its source.
struct ManifestFile {
  const Source* source = nullptr;
  std::vector<YamlNode> documents;
  std::vector<Diagnostic> problems;  // why it could not be read, or not all of it
  bool is_template = false;          // it could not because it is one of Helm's
  std::vector<Object> objects;
  std::vector<Workload> workloads;
};

// Limits of one file of manifests; lists of custom resources are large.
inline constexpr YamlLimits kManifestLimits = {.bytes = 16u << 20,
                                               .depth = 100,
                                               .nodes = 1'000'000,
                                               .scalar_bytes = 4u << 20,
                                               .documents = 10'000,
                                               .aliases = true};

// Never fails: what cannot be read is among the problems.
ManifestFile read_manifest(const Source& source);

// All manifests that are looked at together, so that a pod finds its claim and its service.
class ManifestSet {
 public:
  explicit ManifestSet(std::vector<ManifestFile> files);
  ManifestSet(ManifestSet&&) = default;
  ManifestSet& operator=(ManifestSet&&) = default;
  ManifestSet(const ManifestSet&) = delete;
  ManifestSet& operator=(const ManifestSet&) = delete;

  std::span<const ManifestFile> files() const { return files_; }
  // The object of that kind and name that `from` means: in its file, else in its directory, else
  // the only one there is. nullptr: none.
  const Object* find(std::string_view kind, std::string_view name, const Object& from) const;
  // The workloads that are seen from `from`: in its file, else in its directory.
  std::vector<const Workload*> workloads_around(const Object& from) const;
  // Images whose tag a kustomization sets.
  bool sets_image(std::string_view name) const { return images_.count(std::string(name)) > 0; }

 private:
  void mark_patches();

  std::vector<ManifestFile> files_;
  std::map<std::pair<std::string_view, std::string_view>, std::vector<const Object*>> by_name_;
  std::map<std::string_view, std::vector<const Workload*>> workloads_by_directory_;
  std::set<std::string> images_;
};

// The part of a path before its last slash.
std::string_view directory_of(std::string_view path);

}  // namespace shanty::lint
