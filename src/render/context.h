#pragma once

#include <optional>
#include <string>
#include <vector>

#include "render/render.h"
#include "text/yaml_writer.h"

namespace shanty {

// How the pods of a job come to start together. Nothing: each as it can.
struct Gang {
  std::optional<GangMechanism> mechanism;
  std::string queue;
  bool is(GangMechanism m) const { return mechanism == m; }
};

// What is decided before a target is rendered.
struct RenderContext {
  const Job& job;
  const Plan& plan;
  const KubernetesOffer& offer;
  const RenderOptions& options;
  std::string name;  // of the job's objects
  std::string run_id;
  uint64_t nodes = 1;
  uint64_t processes = 1;  // per node
  uint16_t master_port = 0;
  CodeSource code = CodeSource::kImage;  // never kAuto
  bool host_network = false;
  std::string rdma_resource;  // "" = none
  uint64_t rdma_count = 1;
  Gang gang;
  std::vector<std::string>& notes;

  std::string secret_name() const {
    return options.token_from.empty() ? name + "-token" : options.token_from;
  }
  std::string config_name() const { return name + "-job"; }
  // Seconds a pod gets between SIGTERM and SIGKILL.
  uint64_t grace_s() const;
};

// A file to be written: an object, or the text of a script.
struct Piece {
  std::string stem;  // "service"
  Yaml object;
  std::string text;       // instead of an object
  std::string file_name;  // of a text
};

// Decides; errors as render_job.
Result<RenderContext> make_context(const Job& job, const Plan& plan, const KubernetesOffer& offer,
                                   const RenderOptions& options, std::vector<std::string>& notes);

}  // namespace shanty
