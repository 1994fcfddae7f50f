#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "ckpt/reader.h"

namespace shanty::ckpt {

constexpr uint64_t kBlockBytes = uint64_t{64} << 20;

// Boxes that cover a tensor from its first element to its last, row-major, each of at most
// kBlockBytes unless one row of the first dimension is larger.
std::vector<Box> blocks_of(const StoredTensor& tensor);

// Reads a tensor block by block, in order; stops at the first error, also of `take`.
Status read_blocks(CheckpointReader& reader, const std::string& name, int threads,
                   const std::function<Status(std::string_view bytes)>& take);

}  // namespace shanty::ckpt
