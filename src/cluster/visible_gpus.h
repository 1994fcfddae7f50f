#pragma once

#include <cstdint>

namespace shanty {

// How many of `present` GPUs a CUDA program sees. `visible` is CUDA_VISIBLE_DEVICES: ordinals, or
// identifiers that begin with GPU- or MIG-; nullptr = not set. What follows the first entry that
// names no GPU is not seen, and nothing where one is named twice.
uint64_t visible_gpus(uint64_t present, const char* visible);

}  // namespace shanty
