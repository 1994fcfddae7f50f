#include <fmt/format.h>

#include "job/keys.h"
#include "render/objects.h"
#include "render/pod.h"
#include "render/pod_parts.h"

namespace shanty {
namespace {

constexpr uint64_t kLeastShmBytes = 1u << 30;

void add_claims(const RenderContext& c, Yaml& volumes, Yaml& mounts) {
  size_t index = 0;
  for (const DataMount& data : c.job.data) {
    const std::string name = fmt::format("data-{}", index++);
    Yaml claim;
    claim.set("claimName", data.claim);
    if (data.read_only) claim.set("readOnly", true);
    add_volume(volumes, name, "persistentVolumeClaim", claim);
    mounts.push(mount(name, data.mount, data.read_only));
    if (data.stage.empty()) continue;
    add_volume(volumes, name + "-stage", "emptyDir", Yaml::mapping());
    mounts.push(mount(name + "-stage", data.stage),
                "The node's own disk; what is in it is gone with the pod.");
  }
  const CheckpointSpec& checkpoint = c.job.checkpoint;
  if (checkpoint.claim.empty()) return;
  add_volume(volumes, "checkpoint", "persistentVolumeClaim",
             Yaml::mapping().set("claimName", checkpoint.claim));
  mounts.push(mount("checkpoint", checkpoint.mount),
              c.nodes > 1 ? "Written by all nodes: the claim must be ReadWriteMany." : "");
}

void add_shared_memory(const RenderContext& c, Yaml& volumes, Yaml& mounts) {
  const uint64_t bytes = c.plan.count("shm_bytes").value_or(kLeastShmBytes);
  Yaml shm;
  shm.set("medium", "Memory");
  const PlanValue* reason = c.plan.find("shm_bytes");
  shm.set("sizeLimit", quantity(bytes),
          (reason == nullptr ? "" : reason->reason + ". ") +
              "Counts towards the memory limit of the container.");
  add_volume(volumes, "shm", "emptyDir", shm);
  mounts.push(mount("shm", "/dev/shm"),
              "Without this, /dev/shm has 64 MiB: loader workers die with \"Bus error\", NCCL "
              "falls back to slower ways.");
  const auto memory = c.plan.count("memory_per_node_bytes");
  if (memory && bytes >= *memory) {
    c.notes.push_back(fmt::format(
        "shared memory of {} does not fit into the pod's memory of {}: use more pod.memory, fewer "
        "loader.workers or a smaller loader.shm",
        quantity(bytes), quantity(*memory)));
  }
}

void add_code(const RenderContext& c, Yaml& volumes, Yaml& mounts) {
  if (c.code == CodeSource::kImage) return;
  if (c.code == CodeSource::kGit) {
    add_volume(volumes, "code", "emptyDir", Yaml::mapping());
    mounts.push(mount("code", kCodeDir));
    return;
  }
  Yaml map;
  map.set("name", c.config_name());
  map.set("defaultMode", 365, "0555 in octal: scripts may be run as programs.");
  size_t index = 0;
  for (const CodeFile& file : c.options.code) {
    map["items"].push(Yaml::mapping().set("key", code_key(index++)).set("path", file.path));
  }
  add_volume(volumes, "code", "configMap", map);
  mounts.push(mount("code", kCodeDir, true));
}

void add_own_volumes(const RenderContext& c, const PodFrame& frame, Yaml& volumes, Yaml& mounts) {
  if (brings_shanty(c)) {
    Yaml image;
    image.set("reference", c.job.pod.shanty_image);
    image.set("pullPolicy", choice_name(c.job.pod.pull_policy));
    if (c.options.image_volume) {
      add_volume(volumes, "shanty", "image", image);
    } else {
      add_volume(volumes, "shanty", "emptyDir", Yaml::mapping());
    }
    mounts.push(mount("shanty", kShantyDir, true));
  }
  Yaml config;
  config.set("name", c.config_name());
  for (const std::string& key : {std::string("job.yaml"), frame.config_file}) {
    if (!key.empty()) config["items"].push(Yaml::mapping().set("key", key).set("path", key));
  }
  add_volume(volumes, "job", "configMap", config);
  mounts.push(mount("job", kConfigDir, true));
  Yaml secret;
  secret.set("secretName", c.secret_name());
  secret.set("defaultMode", 288, "0440 in octal: for the pod's group, nobody else.");
  add_volume(volumes, "token", "secret", secret);
  mounts.push(mount("token", kTokenDir, true));
  add_volume(volumes, "home", "emptyDir", Yaml::mapping());
  mounts.push(mount("home", kHomeDir));
}

}  // namespace

Yaml mount(std::string_view name, std::string_view path, bool read_only) {
  Yaml out;
  out.set("name", name).set("mountPath", path);
  if (read_only) out.set("readOnly", true);
  return out;
}

void add_volume(Yaml& volumes, std::string_view name, std::string_view kind, Yaml source) {
  Yaml& volume = volumes.push(Yaml::mapping());
  volume.set("name", name).set(kind, std::move(source));
}

void add_volumes(const RenderContext& c, const PodFrame& frame, Yaml& volumes, Yaml& mounts) {
  add_own_volumes(c, frame, volumes, mounts);
  add_code(c, volumes, mounts);
  if (!frame.is_idle) add_shared_memory(c, volumes, mounts);
  add_claims(c, volumes, mounts);
}

}  // namespace shanty
