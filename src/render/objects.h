#pragma once

#include <vector>

#include "render/context.h"

namespace shanty {

// A new object with apiVersion, kind, name, namespace and the labels all objects of a job carry.
Yaml make_object(const RenderContext& c, std::string_view api_version, std::string_view kind,
                 std::string_view name);

// In which version ResourceClaimTemplates are served; "" = not at all.
std::string claim_template_version(const KubernetesOffer& offer);

// The labels by which the job's pods and objects are found.
void add_labels(const RenderContext& c, Yaml& metadata);

// What every target on Kubernetes needs beside its own object: the token's Secret, the ConfigMap
// with the job file and the code, the checkpoint claim when it is to be made.
std::vector<Piece> common_objects(const RenderContext& c);

// The ConfigMap's key of a file of the code; paths would not do, since keys have no slashes.
std::string code_key(size_t index);

// The headless Service through which pods named HOSTNAME.SERVICE find each other.
Piece headless_service(const RenderContext& c);

// Batch Job fields for a pod per node: indexed completion, what a failed pod means, TTL.
Yaml indexed_job_spec(const RenderContext& c, Yaml pod_template, bool with_ttl);

// The job file as the pods read it.
std::string pod_job_file(const RenderContext& c);
// A job as YAML that parse_job reads back.
std::string job_file_text(const Job& job);

}  // namespace shanty
