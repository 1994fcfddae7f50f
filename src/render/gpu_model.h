#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cluster/kubernetes_offer.h"

namespace shanty {

// The values of the node label nvidia.com/gpu.product that gpu.model means: those the cluster has,
// else those known. A model that is such a value itself is taken as it is; empty when nothing is
// known of it.
std::vector<std::string> gpu_products(std::string_view model, const KubernetesOffer& offer);

}  // namespace shanty
