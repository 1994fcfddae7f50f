#include "render/context.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/hash.h"
#include "render/gang.h"
#include "render/objects.h"
#include "render/pod.h"
#include "render/target.h"

namespace shanty {
namespace {

constexpr uint16_t kMasterPort = 29500;
// Ports of the node's own network: pairs from 23456 on, below what Linux gives to clients (32768).
constexpr uint16_t kFirstHostPort = 23456;
constexpr uint32_t kHostPortPairs = 4096;
// An agent's goodbye and the last lines of the logs, after the ranks' own grace.
constexpr uint64_t kGoodbyeS = 15;
constexpr uint64_t kMaxRdmaCount = 1024;
// What NVIDIA's network operator calls it in its examples.
constexpr std::string_view kUsualRdmaResource = "rdma/rdma_shared_device_a";

uint32_t hash_of(std::string_view text) {
  const std::string digest = sha256(text);
  uint32_t value = 0;
  for (size_t i = 0; i < sizeof value; ++i) {
    value = value << 8 | static_cast<unsigned char>(digest[i]);
  }
  return value;
}

// Two jobs that share a node must not meet at one port.
uint16_t host_port(const Job& job) {
  const uint32_t pair = hash_of(job.schedule.k8s_namespace + "/" + job.name) % kHostPortPairs;
  return static_cast<uint16_t>(kFirstHostPort + 2 * pair);
}

bool is_rdma(const ExtendedResource& resource) {
  return resource.name.starts_with("rdma/") || resource.name.starts_with("vpc.amazonaws.com/efa");
}

Status choose_rdma(RenderContext& c) {
  const NetworkSpec& network = c.job.network;
  if (network.rdma == false) return {};
  if (!network.rdma_resource.empty()) {
    const size_t equals = network.rdma_resource.find('=');
    c.rdma_resource = network.rdma_resource.substr(0, equals);
    if (equals == std::string::npos) return {};
    const char* begin = network.rdma_resource.data() + equals + 1;
    const char* end = network.rdma_resource.data() + network.rdma_resource.size();
    const auto [stop, error] = std::from_chars(begin, end, c.rdma_count);
    if (error != std::errc() || stop != end || c.rdma_count < 1 || c.rdma_count > kMaxRdmaCount) {
      return Error{
          fmt::format("network.rdma_resource: {} is not NAME or NAME=COUNT, such as "
                      "vpc.amazonaws.com/efa=32",
                      network.rdma_resource)};
    }
    return {};
  }
  // Ranks on CPUs speak by gloo, which knows TCP only.
  if (!network.rdma && c.job.gpu.resource == kNoGpus) return {};
  const auto offered = std::ranges::find_if(c.offer.resources, is_rdma);
  if (offered != c.offer.resources.end() && (network.rdma == true || c.nodes > 1)) {
    c.rdma_resource = offered->name;
  } else if (network.rdma == true) {
    c.rdma_resource = kUsualRdmaResource;
    c.notes.push_back(
        fmt::format("network.rdma is on, but how the cluster calls its RDMA devices is not known: "
                    "{} is a guess, network.rdma_resource says it",
                    kUsualRdmaResource));
  }
  return {};
}

Status choose_code(RenderContext& c) {
  const std::string& problem = c.options.code_problem;
  const CodeSpec& code = c.job.code;
  const bool has_files = !c.options.code.empty();
  c.code = code.from;
  if (code.from == CodeSource::kAuto) {
    c.code = !code.git.empty() ? CodeSource::kGit
             : has_files       ? CodeSource::kConfigMap
                               : CodeSource::kImage;
  }
  if (c.code == CodeSource::kGit && code.git.empty()) {
    return Error{"code.from is git, but code.git names no repository"};
  }
  if (c.code == CodeSource::kConfigMap && !has_files) {
    return Error{problem.empty() ? "code.from is configmap, but there is no script to put there"
                                 : problem};
  }
  if (c.code == CodeSource::kImage && code.from == CodeSource::kAuto && !problem.empty()) {
    c.notes.push_back(problem + ", so it is taken to be in the image");
  }
  return {};
}

// Scripts, comments and Dockerfiles end a line where such a value would.
Status check_names(const Job& job) {
  const std::pair<const char*, const std::string*> names[] = {
      {"run.image", &job.run.image},
      {"run.working_dir", &job.run.working_dir},
      {"gpu.model", &job.gpu.model},
      {"gpu.resource", &job.gpu.resource},
      {"gpu.device_class", &job.gpu.device_class},
      {"network.interface", &job.network.interface},
      {"checkpoint.mount", &job.checkpoint.mount},
      {"schedule.namespace", &job.schedule.k8s_namespace},
      {"schedule.queue", &job.schedule.queue},
      {"schedule.topology", &job.schedule.topology},
      {"schedule.priority", &job.schedule.priority}};
  for (const auto& [key, value] : names) {
    if (std::ranges::any_of(*value, [](unsigned char c) { return c < ' ' || c == 0x7f; })) {
      return Error{fmt::format("{} holds a control character", key)};
    }
  }
  return {};
}

// The API server says of a path that is taken only that it is.
Status check_mounts(const Job& job) {
  std::vector<std::pair<std::string, std::string>> taken = {
      {"/dev/shm", "shared memory"}, {kShantyDir, "shanty"},
      {kConfigDir, "the job file"},  {kTokenDir, "the token"},
      {kCodeDir, "the job's code"},  {kHomeDir, "the home directory"}};
  const auto take = [&](const std::string& path, const std::string& what) -> Status {
    if (path.empty()) return {};
    const auto found = std::ranges::find_if(taken, [&](auto& each) { return each.first == path; });
    if (found != taken.end()) {
      return Error{fmt::format("{}: at {} the pods have {}: choose another path", what, path,
                               found->second)};
    }
    if (path.find(':') != std::string::npos) {
      return Error{fmt::format("{}: Kubernetes takes no path with a colon, as {}", what, path)};
    }
    taken.emplace_back(path, what);
    return {};
  };
  TRY_STATUS(take(job.checkpoint.claim.empty() ? "" : job.checkpoint.mount, "checkpoint.mount"));
  for (const DataMount& data : job.data) {
    TRY_STATUS(take(data.mount, "data[].mount"));
    TRY_STATUS(take(data.stage, "data[].stage"));
  }
  return {};
}

Status check_device_class(const Job& job, const KubernetesOffer& offer) {
  const std::string& wanted = job.gpu.device_class;
  if (wanted.empty()) return {};
  if (claim_template_version(offer).empty()) {
    return Error{
        "gpu.device_class: the cluster serves no ResourceClaimTemplate of resource.k8s.io; dynamic "
        "resource allocation is on in Kubernetes 1.34 and later, gpu.resource works in all"};
  }
  if (!offer.device_classes) return {};
  const auto& there = *offer.device_classes;
  if (std::ranges::find(there, wanted) != there.end()) return {};
  return Error{fmt::format("gpu.device_class: the cluster has no DeviceClass {}; {}", wanted,
                           there.empty() ? "it has none, so no driver for it is installed"
                                         : fmt::format("it has {}", fmt::join(there, ", ")))};
}

Status check_image(const RenderContext& c, const RenderTarget& target) {
  if (!target.kind.empty() && c.job.run.image.empty()) {
    return Error{
        "run.image is missing: which image do the pods run? Say it in the job file or "
        "with --image"};
  }
  return {};
}

}  // namespace

uint64_t RenderContext::grace_s() const {
  return static_cast<uint64_t>(std::ceil(job.restart.grace_s)) + kGoodbyeS;
}

Result<RenderContext> make_context(const Job& job, const Plan& plan, const KubernetesOffer& offer,
                                   const RenderOptions& options, std::vector<std::string>& notes) {
  const RenderTarget* target = find_target(options.target);
  if (target == nullptr) {
    return Error{fmt::format("there is no target \"{}\"; the targets are {}", options.target,
                             fmt::join(render_target_names(), ", "))};
  }
  RenderContext c{.job = job,
                  .plan = plan,
                  .offer = offer,
                  .options = options,
                  .name = kubernetes_name(job.name),
                  .run_id = options.run_id,
                  .nodes = job.nodes.max,
                  .processes = job.gpus_per_node,
                  .master_port = kMasterPort,
                  .host_network = job.network.host_network.value_or(false),
                  .rdma_resource = {},
                  .gang = {},
                  .notes = notes};
  if (c.run_id.empty()) {
    // A hash of the token says nothing of its 256 random bits.
    c.run_id = hex(sha256("run of " + options.token + options.token_from + job.name)).substr(0, 8);
  }
  if (c.host_network) c.master_port = host_port(job);
  TRY_STATUS(check_names(job));
  TRY_STATUS(check_image(c, *target));
  if (!target->kind.empty()) {
    TRY_STATUS(check_mounts(job));
    TRY_STATUS(check_device_class(job, offer));
    TRY_STATUS(choose_rdma(c));
    TRY_STATUS(choose_code(c));
  }
  c.gang = TRY(choose_gang(job, offer, options.gang, target->gangs(offer), target->name, notes));
  return c;
}

}  // namespace shanty
