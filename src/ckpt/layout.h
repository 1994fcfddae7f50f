#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace shanty::ckpt {

constexpr uint64_t kDataAlignment = 4096;  // of a shard's data and of images in a slot
constexpr uint64_t kChunkBytes = 1 << 20;  // of a checksum
constexpr size_t kMaxDimensions = 64;
constexpr size_t kMaxNameBytes = 4096;  // of a tensor's name
constexpr uint64_t kMaxElementBytes = 4096;
constexpr int kMaxRanks = 1 << 20;

// A box of a tensor: `shape[i]` elements from `offsets[i]` on in each dimension.
struct Box {
  std::vector<uint64_t> offsets;
  std::vector<uint64_t> shape;
  bool operator==(const Box&) const = default;
};

// A range of the tensor flattened in row-major order (ZeRO, FSDP1).
struct FlatRange {
  uint64_t start = 0;
  uint64_t count = 0;
};

enum class Group { kModel, kOptim };

// Bytes of one element of a safetensors type ("F32", "BF16", "F8_E4M3", "C64", "BOOL" ...).
// nullopt: unknown here, such a tensor is stored as U8. Only whole bytes: no F4, no F6.
std::optional<uint64_t> dtype_bytes(const std::string& dtype);

// The number of elements; an error when it, or its bytes, do not fit 63 bits.
Result<uint64_t> element_count(const std::vector<uint64_t>& shape);

// Not empty, not longer than kMaxNameBytes, UTF-8, not safetensors' "__metadata__".
bool is_storable_name(const std::string& name);

// The box has the tensor's dimensions and lies within it. An empty box may.
Status check_box(const Box& box, const std::vector<uint64_t>& shape);

// The boxes whose elements, one box after the other, are the range: at most 2 * dimensions - 1.
// What reaches beyond the tensor is cut off.
std::vector<Box> boxes_of_flat_range(const std::vector<uint64_t>& shape, FlatRange range);

// One piece that a rank stores, row-major and contiguous.
struct PieceSpec {
  std::string name;
  Group group = Group::kModel;
  std::string dtype;            // a safetensors type, or any other word with `element_bytes`
  uint64_t element_bytes = 0;   // > 0
  std::vector<uint64_t> shape;  // of the whole tensor
  std::vector<Box> boxes;       // one, or those of a flat range, in their order; may be empty
  bool still = false;  // does not change from save to save: lies in another file than what does
};

// Where one box of a piece lies.
struct PlacedBox {
  size_t piece = 0;  // index into the specs
  size_t box = 0;
  size_t file = 0;     // index into Layout::files
  uint64_t at = 0;     // byte offset in the file
  uint64_t bytes = 0;  // 0: an empty box, which is not stored
};

struct FileImage {
  Group group = Group::kModel;
  bool still = false;
  std::string
      path;  // in the checkpoint directory: "model/shard-00001-model-00001-of-00001.safetensors"
  std::string header;        // the first bytes of the file, padded; the data follows
  uint64_t bytes = 0;        // of the whole file
  uint64_t slot_offset = 0;  // where the image begins in a slot, a multiple of kDataAlignment
};

// The images of a rank's files and where each piece lies in them. A group has up to two
// files, one of them for what is still.
struct Layout {
  std::vector<FileImage> files;
  std::vector<PlacedBox> boxes;         // in the order of specs, then boxes
  std::vector<uint64_t> piece_offsets;  // per spec: where its bytes begin in a slot (0 if empty)
  uint64_t slot_bytes = 0;              // a multiple of kDataAlignment
};

// The boxes of one piece lie one after the other, so that a piece is one run of bytes in the slot.
// Errors: a name twice (groups share one space of names), boxes outside of shapes, sizes that
// overflow, more than kMaxDimensions.
Result<Layout> make_layout(const std::vector<PieceSpec>& pieces, int rank);

}  // namespace shanty::ckpt
