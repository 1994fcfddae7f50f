#include "ckpt/blocks.h"

#include <algorithm>
#include <vector>

namespace shanty::ckpt {

std::vector<Box> blocks_of(const StoredTensor& tensor) {
  if (tensor.shape.empty()) return {Box{}};
  uint64_t row_bytes = tensor.element_bytes;
  for (size_t i = 1; i < tensor.shape.size(); ++i) row_bytes *= tensor.shape[i];
  if (row_bytes == 0) return {};
  const uint64_t rows = std::max<uint64_t>(1, kBlockBytes / row_bytes);
  std::vector<Box> blocks;
  for (uint64_t at = 0; at < tensor.shape[0]; at += rows) {
    Box box{.offsets = std::vector<uint64_t>(tensor.shape.size(), 0), .shape = tensor.shape};
    box.offsets[0] = at;
    box.shape[0] = std::min(rows, tensor.shape[0] - at);
    blocks.push_back(std::move(box));
  }
  return blocks;
}

Status read_blocks(CheckpointReader& reader, const std::string& name, int threads,
                   const std::function<Status(std::string_view bytes)>& take) {
  const auto tensor = reader.manifest().tensors.find(name);
  if (tensor == reader.manifest().tensors.end()) return Error{"no tensor " + name};
  std::vector<char> buffer;
  for (Box& block : blocks_of(tensor->second)) {
    const uint64_t bytes = TRY(element_count(block.shape)) * tensor->second.element_bytes;
    buffer.resize(bytes);
    Want want{.name = name, .boxes = {}, .out = buffer.data()};
    want.boxes.push_back(std::move(block));
    TRY_STATUS(reader.read({want}, threads));
    TRY_STATUS(take({buffer.data(), bytes}));
  }
  return {};
}

}  // namespace shanty::ckpt
