#pragma once

#include "render/pod.h"

namespace shanty {

// The parts of which pod.cc puts a pod together.

// The image brings no shanty, so the pod has to be given it.
bool brings_shanty(const RenderContext& c);

Yaml mount(std::string_view name, std::string_view path, bool read_only = false);
// `kind` is the field of the volume's source: "emptyDir", "secret", ...
void add_volume(Yaml& volumes, std::string_view name, std::string_view kind, Yaml source);

// All volumes of the container and where they are mounted; an idle pod has no shared memory.
void add_volumes(const RenderContext& c, const PodFrame& frame, Yaml& volumes, Yaml& mounts);

// What brings shanty and the code, with the volumes only they need.
void add_init_containers(const RenderContext& c, Yaml& spec, Yaml& volumes);

// Requests equal to limits make the pod Guaranteed: it is the last to be evicted, and only such
// pods get CPUs of their own and memory near their GPUs.
Yaml equal_resources(uint64_t cpus, uint64_t memory_bytes);

Yaml container_security(const RenderContext& c, bool needs_rdma);

}  // namespace shanty
