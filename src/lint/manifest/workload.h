#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lint/environment.h"
#include "lint/manifest/command_line.h"
#include "lint/manifest/ref.h"
#include "lint/source.h"

namespace shanty::lint {

// One object of Kubernetes. Borrows its source and the tree it stands in.
struct Object {
  const Source* source = nullptr;
  Ref root;
  std::string_view kind;
  std::string_view api_version;
  std::string_view name;
  bool is_patch = false;  // for Kustomize: a part of an object, so that nothing is missing in it
  // What creates it out of a template of its own, and decides when it starts and when it goes: an
  // AppWrapper, a Katib Experiment.
  Ref wrapper;

  std::string_view api_group() const { return api_version.substr(0, api_version.find('/')); }
};

enum class WorkloadKind {
  kPod,
  kJob,
  kCronJob,
  kDeployment,
  kStatefulSet,
  kDaemonSet,
  kPytorchJob,
  kKubeflowJob,  // TFJob, XGBoostJob, PaddleJob, JAXJob of the Training Operator
  kTrainJob,
  kTrainingRuntime,
  kJobSet,
  kVolcanoJob,
  kRayCluster,  // RayJob and RayService too
  kMpiJob,
  kLeaderWorkerSet,
};

struct Container {
  Ref node;
  bool is_init = false;
  std::string_view name;
  std::string_view image;
  CommandLine command;
  Environment env;

  // Of a TrainJob's trainer too.
  Ref resources() const { return node["resources"] ? node["resources"] : node["resourcesPerNode"]; }
  // The quantity that is reserved (request, else limit) or capped (limit); 0 where it is not said.
  double requested(std::string_view resource) const;
  double limit(std::string_view resource) const;
  double gpus() const;
  bool asks_rdma() const;
};

// The pods made from one template of a workload.
struct PodGroup {
  std::string_view role;            // "Worker", the name of a task; empty where there is one only
  Ref entry;                        // what holds replicas and template
  Ref pod_template;                 // metadata and spec; nothing for the trainer of a TrainJob
  Ref spec;                         // the pod's
  Ref replicas;                     // the value that says how many, if one does
  std::optional<int64_t> pods = 1;  // nothing: filled in later, "{{ .Values.replicas }}"
  std::vector<Container> containers;

  double gpus_per_pod() const;
  // The container that trains: the one with GPUs, else the first.
  const Container* main() const;
  Ref annotations() const { return pod_template["metadata"]["annotations"]; }
  Ref labels() const { return pod_template["metadata"]["labels"]; }
};

// What runs pods, whatever its kind, in one shape.
struct Workload {
  const Object* object = nullptr;
  WorkloadKind kind = WorkloadKind::kPod;
  std::vector<PodGroup> groups;
  bool is_training = false;  // its processes form one world
  bool is_whole = true;      // no patch: what is not there is missing

  // Pods of one world; nothing where a group's number is not known.
  std::optional<int64_t> pods() const;
  double gpus() const;
  // Several pods for sure.
  bool is_spread() const { return pods().value_or(0) > 1; }
  Ref spec() const { return object->root["spec"]; }
  Ref metadata() const { return object->root["metadata"]; }
};

// The workload that an object is; nothing for other objects.
std::optional<Workload> read_workload(const Object& object);

}  // namespace shanty::lint
