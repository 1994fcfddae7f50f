#include "cluster/kubernetes_offer.h"

#include <algorithm>

namespace shanty {

const ServedKind* KubernetesOffer::find_kind(std::string_view group, std::string_view kind,
                                             std::string_view version) const {
  const auto found = std::ranges::find_if(kinds, [&](const ServedKind& k) {
    return k.group == group && k.kind == kind && (version.empty() || k.version == version);
  });
  return found == kinds.end() ? nullptr : &*found;
}

const ExtendedResource* KubernetesOffer::find_resource(std::string_view name) const {
  const auto found = std::ranges::find(resources, name, &ExtendedResource::name);
  return found == resources.end() ? nullptr : &*found;
}

bool KubernetesOffer::has_gang(GangMechanism mechanism) const {
  return std::ranges::find(gangs, mechanism) != gangs.end();
}

std::string_view gang_name(GangMechanism mechanism) {
  switch (mechanism) {
    case GangMechanism::kKueue:
      return "kueue";
    case GangMechanism::kVolcano:
      return "volcano";
    case GangMechanism::kCoscheduling:
      return "coscheduling";
    case GangMechanism::kNative:
      return "native";
  }
  __builtin_unreachable();
}

KubernetesOffer newest_kubernetes_offer() {
  KubernetesOffer offer;
  offer.kinds = {
      {"", "v1", "Pod", "pods"},
      {"", "v1", "Service", "services"},
      {"", "v1", "ConfigMap", "configmaps"},
      {"", "v1", "Secret", "secrets"},
      {"", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"},
      {"batch", "v1", "Job", "jobs"},
      {"kubeflow.org", "v1", "PyTorchJob", "pytorchjobs"},
      {"kubeflow.org", "v2beta1", "MPIJob", "mpijobs"},
      {"trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs"},
      {"trainer.kubeflow.org", "v1alpha1", "TrainingRuntime", "trainingruntimes"},
      {"jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets"},
      {"batch.volcano.sh", "v1alpha1", "Job", "jobs"},
      {"scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups"},
      {"scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups"},
      {"kueue.x-k8s.io", "v1beta2", "LocalQueue", "localqueues"},
      {"ray.io", "v1", "RayJob", "rayjobs"},
  };
  set_kubernetes_version(offer, {1, 37});
  offer.schedulers = {"default-scheduler"};
  offer.trainer = MinorVersion{2, 3};
  return offer;
}

// Gang scheduling of Kubernetes itself, by release: a Workload that holds the groups in 1.35,
// groups of their own from 1.36 on. Dynamic resource allocation is general since 1.34.
void set_kubernetes_version(KubernetesOffer& offer, MinorVersion version) {
  offer.server = version;
  std::erase_if(offer.kinds, [](const ServedKind& k) {
    return k.group == "scheduling.k8s.io" || k.group == "resource.k8s.io";
  });
  if (version >= MinorVersion{1, 32}) {
    const char* api = version >= MinorVersion{1, 34}   ? "v1"
                      : version >= MinorVersion{1, 33} ? "v1beta2"
                                                       : "v1beta1";
    offer.kinds.push_back(
        {"resource.k8s.io", api, "ResourceClaimTemplate", "resourceclaimtemplates"});
  }
  if (version < MinorVersion{1, 35}) return;
  const char* api = version >= MinorVersion{1, 37}   ? "v1beta1"
                    : version >= MinorVersion{1, 36} ? "v1alpha2"
                                                     : "v1alpha1";
  offer.kinds.push_back({"scheduling.k8s.io", api, "Workload", "workloads"});
  if (version >= MinorVersion{1, 36}) {
    offer.kinds.push_back({"scheduling.k8s.io", api, "PodGroup", "podgroups"});
  }
}

}  // namespace shanty
