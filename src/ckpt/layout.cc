#include "ckpt/layout.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "text/json_fields.h"
#include "text/utf8.h"

namespace shanty::ckpt {
namespace {

constexpr uint64_t kMaxBytes = std::numeric_limits<int64_t>::max();
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // safetensors refuses longer ones
constexpr std::string_view kReservedKey = "__metadata__";

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

std::string quoted(const std::string& text) { return print_json(nlohmann::json(text)); }

std::string numbers(const std::vector<uint64_t>& values) {
  return fmt::format("[{}]", fmt::join(values, ","));
}

// What the place among the others follows, so that each lies at a multiple of it.
// Elements of odd sizes may lie anywhere.
uint64_t alignment_of(const PieceSpec& piece) {
  return piece.element_bytes & (~piece.element_bytes + 1);
}

Result<uint64_t> bytes_of(const std::vector<uint64_t>& shape, uint64_t element_bytes) {
  const uint64_t count = TRY(element_count(shape));
  if (count > kMaxBytes / element_bytes) return Error{"more bytes than fit 63 bits"};
  return count * element_bytes;
}

Status check_piece(const PieceSpec& piece) {
  if (!is_storable_name(piece.name)) {
    return Error{"not a name that can be stored (empty, reserved, too long or not UTF-8)"};
  }
  if (piece.element_bytes == 0 || piece.element_bytes > kMaxElementBytes) {
    return Error{fmt::format("elements of {} bytes", piece.element_bytes)};
  }
  if (dtype_bytes(piece.dtype).value_or(piece.element_bytes) != piece.element_bytes) {
    return Error{fmt::format("{} does not have {} bytes", piece.dtype, piece.element_bytes)};
  }
  if (piece.shape.size() > kMaxDimensions) return Error{"too many dimensions"};
  TRY(bytes_of(piece.shape, piece.element_bytes));
  for (const Box& box : piece.boxes) TRY_STATUS(check_box(box, piece.shape));
  return {};
}

// Which stored tensor of a shard one box is, in the order of the file.
struct Entry {
  size_t piece = 0;
  size_t box = 0;
  size_t placed = 0;  // index into Layout::boxes
};

std::string key_of(const PieceSpec& piece, size_t box) {
  if (piece.boxes.size() == 1) return piece.name;
  return fmt::format("{}.__dcp_shard_{}", piece.name, box);
}

std::string dcp_sharding_info(const std::vector<PieceSpec>& pieces,
                              const std::vector<Entry>& entries) {
  std::string info = "{";
  for (const Entry& entry : entries) {
    const PieceSpec& piece = pieces[entry.piece];
    std::vector<uint64_t> offsets = piece.boxes[entry.box].offsets;
    if (!dtype_bytes(piece.dtype)) offsets.push_back(0);
    if (info.size() > 1) info += ',';
    info += fmt::format(R"({}:{{"saved_offsets":{},"logical_fqn":{}}})",
                        quoted(key_of(piece, entry.box)), numbers(offsets), quoted(piece.name));
  }
  return info + "}";
}

// The header of one shard, padded, and the offset of each entry after it in `at`.
Result<std::string> make_header(const std::vector<PieceSpec>& pieces,
                                const std::vector<Entry>& entries,
                                const std::vector<uint64_t>& sizes, std::vector<uint64_t>& at) {
  std::string json = fmt::format(
      R"({{"__metadata__":{{"DCP_SHARDING_INFO":{},"DCP_VERSION":"1.0","format":"pt"}})",
      quoted(dcp_sharding_info(pieces, entries)));
  std::set<std::string> keys;
  uint64_t offset = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const PieceSpec& piece = pieces[entries[i].piece];
    const std::string key = key_of(piece, entries[i].box);
    if (!keys.insert(key).second) return Error{"two tensors have the key " + key};
    std::vector<uint64_t> shape = piece.boxes[entries[i].box].shape;
    const bool known = dtype_bytes(piece.dtype).has_value();
    if (!known) shape.push_back(piece.element_bytes);
    if (sizes[i] > kMaxBytes - offset) return Error{"more bytes than fit 63 bits"};
    json +=
        fmt::format(R"(,{}:{{"dtype":{},"shape":{},"data_offsets":[{},{}]}})", quoted(key),
                    quoted(known ? piece.dtype : "U8"), numbers(shape), offset, offset + sizes[i]);
    at.push_back(offset);
    offset += sizes[i];
  }
  json += '}';
  const uint64_t padded = round_up(sizeof(uint64_t) + json.size(), kDataAlignment);
  if (padded > kMaxHeaderBytes) return Error{"a header of more than 100 MB; use more ranks"};
  json.resize(padded - sizeof(uint64_t), ' ');
  const uint64_t length = json.size();
  std::string header(reinterpret_cast<const char*>(&length), sizeof(length));
  return header + json;
}

std::string shard_path(Group group, bool still, int rank) {
  return fmt::format("{}/shard-{:05}-{}-00001-of-00001.safetensors",
                     group == Group::kModel ? "model" : "optim", rank + 1,
                     still ? "still" : "model");
}

struct FileKind {
  Group group = Group::kModel;
  bool still = false;
};

// Adds that file to `layout`, if there is anything to put into it.
Status add_file(const std::vector<PieceSpec>& pieces, FileKind kind, int rank, Layout& layout) {
  std::vector<Entry> entries;
  for (size_t i = 0; i < layout.boxes.size(); ++i) {
    const PlacedBox& placed = layout.boxes[i];
    const PieceSpec& piece = pieces[placed.piece];
    if (piece.group != kind.group || piece.still != kind.still || placed.bytes == 0) continue;
    entries.push_back({.piece = placed.piece, .box = placed.box, .placed = i});
  }
  if (entries.empty()) return {};
  std::stable_sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
    if (a.piece == b.piece) return a.box < b.box;
    const PieceSpec& left = pieces[a.piece];
    const PieceSpec& right = pieces[b.piece];
    if (alignment_of(left) != alignment_of(right)) return alignment_of(left) > alignment_of(right);
    return left.name < right.name;
  });
  std::vector<uint64_t> sizes;
  for (const Entry& entry : entries) sizes.push_back(layout.boxes[entry.placed].bytes);
  std::vector<uint64_t> at;
  FileImage file{.group = kind.group,
                 .still = kind.still,
                 .path = shard_path(kind.group, kind.still, rank),
                 .header = TRY(make_header(pieces, entries, sizes, at)),
                 .slot_offset = layout.slot_bytes};
  file.bytes = file.header.size();
  for (size_t i = 0; i < entries.size(); ++i) {
    PlacedBox& placed = layout.boxes[entries[i].placed];
    placed.file = layout.files.size();
    placed.at = file.header.size() + at[i];
    file.bytes = placed.at + placed.bytes;
    if (layout.piece_offsets[placed.piece] == 0) {
      layout.piece_offsets[placed.piece] = file.slot_offset + placed.at;
    }
  }
  if (file.bytes > kMaxBytes / 4) return Error{"a shard of more than 2^61 bytes"};
  layout.slot_bytes += round_up(file.bytes, kDataAlignment);
  layout.files.push_back(std::move(file));
  return {};
}

// Appends the boxes of elements [start, end) of the part of the tensor that `at` selects.
void cut(const std::vector<uint64_t>& shape, std::vector<uint64_t>& at, uint64_t start,
         uint64_t end, std::vector<Box>& out) {
  const size_t dim = at.size();
  uint64_t row = 1;
  for (size_t i = dim + 1; i < shape.size(); ++i) row *= shape[i];
  const auto emit = [&](uint64_t first, uint64_t count) {
    Box box{.offsets = at, .shape = std::vector<uint64_t>(at.size(), 1)};
    if (dim < shape.size()) {
      box.offsets.push_back(first);
      box.shape.push_back(count);
    }
    for (size_t i = dim + 1; i < shape.size(); ++i) {
      box.offsets.push_back(0);
      box.shape.push_back(shape[i]);
    }
    out.push_back(std::move(box));
  };
  const auto descend = [&](uint64_t index, uint64_t from, uint64_t to) {
    at.push_back(index);
    cut(shape, at, from, to, out);
    at.pop_back();
  };
  uint64_t first = start / row;
  const uint64_t last = end / row;
  if (first == last) return descend(first, start % row, end % row);
  if (start % row != 0) descend(first++, start % row, row);
  if (first < last) emit(first, last - first);
  if (end % row != 0) descend(last, 0, end % row);
}

}  // namespace

std::optional<uint64_t> dtype_bytes(const std::string& dtype) {
  static const std::map<std::string_view, uint64_t> kBytes = {
      {"BOOL", 1},        {"U8", 1},          {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
      {"F8_E8M0", 1},     {"F8_E4M3FNUZ", 1}, {"U16", 2}, {"I16", 2},     {"F16", 2},
      {"F8_E5M2FNUZ", 1}, {"BF16", 2},        {"U32", 4}, {"I32", 4},     {"F32", 4},
      {"U64", 8},         {"I64", 8},         {"F64", 8}, {"C64", 8},
  };
  const auto it = kBytes.find(dtype);
  if (it == kBytes.end()) return std::nullopt;
  return it->second;
}

Result<uint64_t> element_count(const std::vector<uint64_t>& shape) {
  if (std::find(shape.begin(), shape.end(), 0U) != shape.end()) return uint64_t{0};
  uint64_t count = 1;
  for (const uint64_t extent : shape) {
    if (extent > kMaxBytes / count) return Error{"more elements than fit 63 bits"};
    count *= extent;
  }
  return count;
}

bool is_storable_name(const std::string& name) {
  return !name.empty() && name.size() <= kMaxNameBytes && name != kReservedKey &&
         !find_invalid_utf8(name);
}

Status check_box(const Box& box, const std::vector<uint64_t>& shape) {
  if (box.offsets.size() != shape.size() || box.shape.size() != shape.size()) {
    return Error{"a piece has other dimensions than its tensor"};
  }
  for (size_t i = 0; i < shape.size(); ++i) {
    if (box.offsets[i] > shape[i] || box.shape[i] > shape[i] - box.offsets[i]) {
      return Error{fmt::format("a piece at {} of shape {} reaches out of the tensor's {}",
                               numbers(box.offsets), numbers(box.shape), numbers(shape))};
    }
  }
  return {};
}

std::vector<Box> boxes_of_flat_range(const std::vector<uint64_t>& shape, FlatRange range) {
  const auto total = element_count(shape);
  std::vector<Box> out;
  if (!total || range.start >= *total) return out;
  const uint64_t end = range.start + std::min(range.count, *total - range.start);
  if (end == range.start) return out;
  std::vector<uint64_t> at;
  cut(shape, at, range.start, end, out);
  return out;
}

Result<Layout> make_layout(const std::vector<PieceSpec>& pieces, int rank) {
  if (rank < 0 || rank >= kMaxRanks) return Error{fmt::format("laying out rank {}", rank)};
  Layout layout;
  std::set<std::string> names;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::string what = fmt::format("laying out tensor {}", pieces[i].name);
    TRY_STATUS(check_piece(pieces[i]).context(what));
    if (!names.insert(pieces[i].name).second) return Error{what + ": the name is there twice"};
    for (size_t b = 0; b < pieces[i].boxes.size(); ++b) {
      const uint64_t bytes = TRY(bytes_of(pieces[i].boxes[b].shape, pieces[i].element_bytes));
      layout.boxes.push_back({.piece = i, .box = b, .bytes = bytes});
    }
  }
  layout.piece_offsets.resize(pieces.size());
  for (const Group group : {Group::kModel, Group::kOptim}) {
    for (const bool still : {false, true}) {
      TRY_STATUS(add_file(pieces, {group, still}, rank, layout)
                     .context("laying out " + shard_path(group, still, rank)));
    }
  }
  return layout;
}

}  // namespace shanty::ckpt
