#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "check/snapshot.h"
#include "job/job.h"
#include "plan/plan.h"
#include "text/yaml_tree.h"

namespace shanty::check {

// The objects of a file of manifests, in its order. Errors name the place.
Result<std::vector<nlohmann::json>> parse_manifests(std::string_view text,
                                                    const std::string& file_name);
// YAML's core schema: true, 12, 1.5 and null become what they are, the rest is text.
nlohmann::json to_json(const YamlNode& node);

// True when the file's first document has apiVersion and kind.
bool is_manifest(std::string_view text);

// What all the objects ask for together. Kinds that bring no pods are left out; an error when none
// brings any.
Result<Workload> workload_of(const std::vector<nlohmann::json>& objects,
                             const std::string& k8s_namespace);

// The same for a job file whose objects cannot be rendered (it names no image yet).
Workload workload_of(const Job& job, const Plan& plan, const std::string& k8s_namespace);

// A job file as the objects of `target` for what the cluster offers, without a token.
Result<std::vector<nlohmann::json>> render_objects(const Job& job, const std::string& job_file,
                                                   const KubernetesOffer& offer,
                                                   const std::string& target);

}  // namespace shanty::check
