#include "lint/manifest/manifest_set.h"

#include <algorithm>
#include <filesystem>

namespace shanty::lint {
namespace {

constexpr size_t kMaxListDepth = 4;

void add_object(const Source& source, Ref root, std::vector<Object>& out, size_t depth = 0);

// The object of a template; a trial has its Experiment's name until it has one.
void add_wrapped(const Source& source, Ref wrapper, Ref root, std::vector<Object>& out) {
  const size_t before = out.size();
  add_object(source, root, out, kMaxListDepth);
  for (size_t i = before; i < out.size(); ++i) {
    out[i].wrapper = wrapper;
    if (out[i].name.empty()) out[i].name = wrapper["metadata"]["name"].text();
  }
}

void add_templates(const Source& source, Ref root, std::vector<Object>& out) {
  const Ref spec = root["spec"];
  const std::string_view kind = root["kind"].text();
  if (kind == "Experiment") add_wrapped(source, root, spec["trialTemplate"]["trialSpec"], out);
  if (kind != "AppWrapper") return;
  for (const YamlNode& item : spec["components"].items()) {
    add_wrapped(source, root, Ref(item)["template"], out);
  }
  for (const YamlNode& item : spec["resources"]["GenericItems"].items()) {
    add_wrapped(source, root, Ref(item)["generictemplate"], out);
  }
}

void add_object(const Source& source, Ref root, std::vector<Object>& out, size_t depth) {
  const std::string_view kind = root["kind"].text();
  if (kind.empty() || root["apiVersion"].text().empty()) return;
  const bool is_list = kind.size() >= 4 && kind.substr(kind.size() - 4) == "List";
  if (is_list && root["items"].is_sequence() && depth < kMaxListDepth) {
    for (const YamlNode& item : root["items"].items()) add_object(source, item, out, depth + 1);
    return;
  }
  out.push_back({.source = &source,
                 .root = root,
                 .kind = kind,
                 .api_version = root["apiVersion"].text(),
                 .name = root["metadata"]["name"].text()});
  if (depth < kMaxListDepth) add_templates(source, root, out);
}

void read_workloads(ManifestFile& file) {
  file.workloads.clear();
  for (const Object& object : file.objects) {
    if (auto work = read_workload(object)) file.workloads.push_back(std::move(*work));
  }
}

std::string_view base_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? path : path.substr(slash + 1);
}

bool is_kustomization(std::string_view path) {
  const std::string_view name = base_name(path);
  return name == "kustomization.yaml" || name == "kustomization.yml" || name == "Kustomization";
}

// What a kustomization names as its patches, as paths like those of the sources.
void collect_patches(const ManifestFile& file, std::set<std::string>& out) {
  const auto add = [&](std::string_view path) {
    if (path.empty() || path.find('\n') != path.npos) return;
    const std::filesystem::path directory(directory_of(file.source->name));
    out.insert((directory / std::string(path)).lexically_normal().string());
  };
  for (const YamlNode& document : file.documents) {
    const Ref root(document);
    for (std::string_view list : {"patches", "patchesStrategicMerge", "patchesJson6902"}) {
      for (const YamlNode& item : root[list].items()) {
        add(Ref(item).text());
        add(Ref(item)["path"].text());
      }
    }
  }
}

void collect_images(const ManifestFile& file, std::set<std::string>& out) {
  for (const YamlNode& document : file.documents) {
    for (const YamlNode& item : Ref(document)["images"].items()) {
      const bool sets_version = Ref(item)["newTag"] || Ref(item)["digest"];
      if (sets_version) out.insert(std::string(Ref(item)["name"].text()));
    }
  }
}

const Object* nearest(std::span<const Object* const> candidates, const Object& from) {
  for (const Object* candidate : candidates) {
    if (candidate->source == from.source) return candidate;
  }
  const std::string_view directory = directory_of(from.source->name);
  for (const Object* candidate : candidates) {
    if (directory_of(candidate->source->name) == directory) return candidate;
  }
  return candidates.size() == 1 ? candidates[0] : nullptr;
}

}  // namespace

std::string_view directory_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? std::string_view() : path.substr(0, slash);
}

ManifestFile read_manifest(const Source& source) {
  ParsedYaml parsed = parse_documents(source.text, source.name, kManifestLimits);
  ManifestFile file{.source = &source,
                    .documents = std::move(parsed.documents),
                    .problems = std::move(parsed.diagnostics)};
  const bool has_marks =
      source.text.find("{{") != source.text.npos || source.text.find("{%") != source.text.npos;
  file.is_template = !file.problems.empty() && has_marks;
  for (const YamlNode& document : file.documents) add_object(source, document, file.objects);
  read_workloads(file);
  return file;
}

ManifestSet::ManifestSet(std::vector<ManifestFile> files) : files_(std::move(files)) {
  mark_patches();
  for (const ManifestFile& file : files_) {
    for (const Object& object : file.objects) {
      by_name_[{object.kind, object.name}].push_back(&object);
    }
    for (const Workload& work : file.workloads) {
      workloads_by_directory_[directory_of(file.source->name)].push_back(&work);
    }
  }
}

void ManifestSet::mark_patches() {
  std::set<std::string> patches;
  for (const ManifestFile& file : files_) {
    if (!is_kustomization(file.source->name)) continue;
    collect_patches(file, patches);
    collect_images(file, images_);
  }
  if (patches.empty()) return;
  for (ManifestFile& file : files_) {
    const std::string path = std::filesystem::path(file.source->name).lexically_normal().string();
    if (patches.count(path) == 0) continue;
    for (Object& object : file.objects) object.is_patch = true;
    read_workloads(file);
  }
}

const Object* ManifestSet::find(std::string_view kind, std::string_view name,
                                const Object& from) const {
  const auto found = by_name_.find({kind, name});
  return found == by_name_.end() ? nullptr : nearest(found->second, from);
}

std::vector<const Workload*> ManifestSet::workloads_around(const Object& from) const {
  const auto found = workloads_by_directory_.find(directory_of(from.source->name));
  if (found == workloads_by_directory_.end()) return {};
  std::vector<const Workload*> same_file;
  for (const Workload* work : found->second) {
    if (work->object->source == from.source) same_file.push_back(work);
  }
  return same_file.empty() ? found->second : same_file;
}

}  // namespace shanty::lint
