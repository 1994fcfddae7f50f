#pragma once

#include <optional>
#include <string_view>

namespace shanty::lint {

// A quantity of Kubernetes, "500m", "1.5", "16Gi", "2e3", "1G", in its base unit (cores, bytes,
// pieces). Nothing where it is none.
std::optional<double> parse_quantity(std::string_view text);

// Names of resources that only whole numbers are had of, with equal requests and limits:
// "nvidia.com/gpu", "rdma/hca", "vpc.amazonaws.com/efa"; not "cpu", not "hugepages-2Mi".
bool is_extended_resource(std::string_view name);
// Of those, what counts as one accelerator: GPUs, MIG devices, Gaudi, Neuron.
bool is_gpu_resource(std::string_view name);
bool is_mig_resource(std::string_view name);
// Of those, what gives a pod RDMA through verbs (EFA does not).
bool is_rdma_resource(std::string_view name);

}  // namespace shanty::lint
