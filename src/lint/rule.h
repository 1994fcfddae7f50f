#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <variant>

#include "lint/dockerfile.h"
#include "lint/job_source.h"
#include "lint/manifest/manifest_set.h"
#include "lint/report.h"

namespace shanty::lint {

// What a rule about manifests looks at: a workload with all that is beside it, and for rules about
// pods or containers the one at hand.
struct Case {
  const ManifestSet& set;
  const Workload& work;
  const PodGroup* pods = nullptr;
  const Container* container = nullptr;
};

// Whether a rule may look at parts of objects: one that misses something may not.
enum class Needs { kAnything, kWholeObject };

struct WorkloadRule {
  void (*run)(const Case&, Report&);
  Needs needs = Needs::kAnything;
};
struct PodRule {
  void (*run)(const Case&, Report&);
  Needs needs = Needs::kAnything;
};
// Init containers are not looked at.
struct ContainerRule {
  void (*run)(const Case&, Report&);
  Needs needs = Needs::kAnything;
};
// Any object, workload or not.
struct ObjectRule {
  void (*run)(const ManifestSet&, const Object&, Report&);
};
struct DockerfileRule {
  void (*run)(const Dockerfile&, Report&);
};
struct JobRule {
  void (*run)(const JobSource&, Report&);
};

// A rule and the codes that its findings may bear, with a blank between them. Several rules may
// bear one code.
struct Rule {
  std::string_view codes;
  std::variant<WorkloadRule, PodRule, ContainerRule, ObjectRule, DockerfileRule, JobRule> run;
};

// All rules of src/lint/rules/, a span per file. src/lint/rules/<area>.cc defines
// `extern const std::span<const Rule> k<Area>Rules`; the table is generated from the file names.
std::span<const std::span<const Rule>> all_rules();

}  // namespace shanty::lint
