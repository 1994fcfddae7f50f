#pragma once

// For tests only: small checkpoints whose whole content follows from one number.

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/random.h"
#include "ckpt/checked_file.h"
#include "ckpt/reader.h"
#include "ckpt/store.h"

namespace shanty::ckpt {

struct TestTensor {
  std::string name;
  Group group;
  std::string dtype;
  uint64_t element_bytes;
  std::vector<uint64_t> shape;
  bool still = false;  // the same in all saves
};

inline TestTensor still_tensor() { return {"layer.still", Group::kModel, "F32", 4, {40}, true}; }

// Of scale 1: few, for tests that load a hundred thousand times.
inline std::vector<TestTensor> test_tensors(uint64_t scale) {
  if (scale == 1) {
    return {{"layer.weight", Group::kModel, "F32", 4, {6, 4}},
            {"exp_avg", Group::kOptim, "F32", 4, {3, 2, 4}}};
  }
  return {
      {"layer.weight", Group::kModel, "F32", 4, {6 * scale, 4}},
      {"layer.bias", Group::kModel, "BF16", 2, {5}},
      {"layer.odd", Group::kModel, "Q24", 3, {3, 2}},
      {"exp_avg", Group::kOptim, "F32", 4, {3, 2, 4 * scale}},
      {"step", Group::kOptim, "I64", 8, {}},
      {"nothing", Group::kOptim, "F32", 4, {0, 3}},
  };
}

// Kept, since the crash model asks for the same ones a hundred thousand times.
inline const std::string& test_bytes(const TestTensor& tensor, uint64_t salt) {
  static std::map<std::pair<std::string, uint64_t>, std::string> made;
  const uint64_t size = element_count(tensor.shape).value() * tensor.element_bytes;
  if (tensor.still) salt = 0;
  std::string& out = made[{tensor.name, salt * 1000 + tensor.shape.size() + size % 1000}];
  if (out.size() == size) return out;
  out.assign(size, '\0');
  Rng rng(salt * 1000003 + std::hash<std::string>{}(tensor.name));
  for (char& c : out) c = static_cast<char>(rng.next());
  return out;
}

// Calls `row(offset of a row in the box, offset in the tensor, bytes)`, the innermost dimension
// element by element: slow and plain.
template <typename Row>
void for_each_element(const Box& box, const std::vector<uint64_t>& shape, Row row) {
  const uint64_t count = element_count(box.shape).value();
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t rest = i;
    uint64_t at = 0;
    uint64_t stride = 1;
    for (size_t dim = shape.size(); dim-- > 0;) {
      at += (rest % box.shape[dim] + box.offsets[dim]) * stride;
      rest /= box.shape[dim];
      stride *= shape[dim];
    }
    row(i, at);
  }
}

inline std::string cut_out(const std::string& bytes, const TestTensor& tensor, const Box& box) {
  std::string out;
  for_each_element(box, tensor.shape, [&](uint64_t, uint64_t at) {
    out += bytes.substr(at * tensor.element_bytes, tensor.element_bytes);
  });
  return out;
}

// Which part of a tensor a rank stores: shares of the first dimension, flat ranges, or all of it.
inline PieceSpec test_piece(const TestTensor& tensor, int rank, int world) {
  PieceSpec piece{.name = tensor.name,
                  .group = tensor.group,
                  .dtype = tensor.dtype,
                  .element_bytes = tensor.element_bytes,
                  .shape = tensor.shape,
                  .boxes = {},
                  .still = tensor.still};
  const uint64_t r = static_cast<uint64_t>(rank);
  const uint64_t w = static_cast<uint64_t>(world);
  const uint64_t count = element_count(tensor.shape).value();
  if (tensor.name == "layer.weight") {
    const uint64_t begin = tensor.shape[0] * r / w;
    const uint64_t end = tensor.shape[0] * (r + 1) / w;
    piece.boxes = {{{begin, 0}, {end - begin, tensor.shape[1]}}};
  } else if (tensor.name == "exp_avg") {
    const uint64_t begin = (count * r + 2) / w;
    const uint64_t end = rank + 1 == world ? count : (count * (r + 1) + 2) / w;
    const uint64_t first = rank == 0 ? 0 : begin;
    piece.boxes = boxes_of_flat_range(tensor.shape, {first, end - first});
  } else if (rank == static_cast<int>(tensor.name.size() % w) && count > 0) {
    piece.boxes = {{std::vector<uint64_t>(tensor.shape.size(), 0), tensor.shape}};
  }
  return piece;
}

inline std::string state_of(uint64_t salt, int rank) {
  return fmt::format(R"({{"salt":{},"rank":{}}})", salt, rank);
}

struct TestSave {
  uint64_t salt = 1;
  int world = 2;
  uint64_t scale = 1;
  std::string global = "";                          // in place of global_of(salt)
  std::optional<LinkSource> source = std::nullopt;  // with it, still_tensor() is saved too
};

// What one rank does, as the engine does it.
inline Result<Receipt> write_rank(Vfs& vfs, const std::string& directory, const TestSave& save,
                                  int rank) {
  std::vector<TestTensor> tensors = test_tensors(save.scale);
  if (save.source) tensors.push_back(still_tensor());
  std::vector<PieceSpec> pieces;
  for (const TestTensor& tensor : tensors) {
    pieces.push_back(test_piece(tensor, rank, save.world));
  }
  const Layout layout = TRY(make_layout(pieces, rank));
  AlignedBuffer slot(layout.slot_bytes);
  std::memset(slot.data(), 0x55, layout.slot_bytes);
  for (const FileImage& file : layout.files) {
    std::memcpy(slot.data() + file.slot_offset, file.header.data(), file.header.size());
  }
  for (const PlacedBox& placed : layout.boxes) {
    if (placed.bytes == 0) continue;
    const std::string bytes =
        cut_out(test_bytes(tensors[placed.piece], save.salt), tensors[placed.piece],
                pieces[placed.piece].boxes[placed.box]);
    std::memcpy(slot.data() + layout.files[placed.file].slot_offset + placed.at, bytes.data(),
                bytes.size());
  }
  Receipt receipt{.rank = rank, .tensors = stored_tensors(pieces, layout)};
  for (const FileImage& file : layout.files) {
    const std::string_view image(slot.data() + file.slot_offset, file.bytes);
    receipt.files.push_back(
        file.still
            ? TRY(link_or_write_image(vfs, directory, file.path, rank, image, *save.source, {}))
            : TRY(write_image(vfs, directory, file.path, rank, image, {}, {})));
  }
  receipt.files.push_back(
      TRY(write_image(vfs, directory, fmt::format("state/rank-{:05}.json", rank), rank,
                      state_of(save.salt, rank), {}, {.direct = false})));
  receipt.aliases["tied"] = "layer.weight";
  TRY_STATUS(sync_written(vfs, directory, receipt.files));
  return decode_receipt(encode_receipt(receipt));
}

inline std::string global_of(uint64_t salt) { return fmt::format(R"({{"salt":{}}})", salt); }

inline Result<Committed> run_save(Vfs& vfs, const Fence& fence, const CheckpointId& id,
                                  const TestSave& save) {
  TRY_STATUS(make_in_progress(vfs, fence, id));
  const std::string directory = fence.root + "/" + in_progress_name(id);
  std::vector<Receipt> receipts;
  for (int rank = 0; rank < save.world; ++rank) {
    receipts.push_back(TRY(write_rank(vfs, directory, save, rank)));
  }
  return commit(vfs, fence, id, save.world, receipts,
                save.global.empty() ? global_of(save.salt) : save.global);
}

// Everything in a checkpoint is that of one save; returns its salt.
inline Result<uint64_t> check_content(CheckpointReader& reader, uint64_t scale, int threads = 1) {
  const std::string& global = reader.manifest().global_json;
  uint64_t salt = 0;
  if (std::sscanf(global.c_str(), "{\"salt\":%lu}", &salt) != 1) return Error{"global " + global};
  std::vector<TestTensor> tensors = test_tensors(scale);
  if (reader.manifest().tensors.contains(still_tensor().name)) tensors.push_back(still_tensor());
  std::vector<std::string> got;
  std::vector<Want> wants;
  for (const TestTensor& tensor : tensors) {
    got.emplace_back(test_bytes(tensor, salt).size(), '\0');
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Box all{std::vector<uint64_t>(tensors[i].shape.size(), 0), tensors[i].shape};
    const bool tied = salt % 2 == 0 && tensors[i].name == "layer.weight";
    wants.push_back({tied ? "tied" : tensors[i].name, {all}, got[i].data()});
  }
  TRY_STATUS(reader.read(wants, threads));
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (got[i] != test_bytes(tensors[i], salt)) {
      return Error{fmt::format("tensor {} is not that of save {}", tensors[i].name, salt)};
    }
  }
  for (int rank = 0; rank < reader.manifest().world_size; ++rank) {
    const std::string path = fmt::format("state/rank-{:05}.json", rank);
    if (TRY(reader.read_file(path)) != state_of(salt, rank)) return Error{path + " is of another"};
  }
  return salt;
}

struct Loaded {
  std::optional<uint64_t> salt;
  CheckpointId id;
  std::vector<std::pair<std::string, std::string>> skipped;  // with what was found damaged
};

// Loads as a trainer does: the newest, and the next older one after damage.
inline Result<Loaded> load_newest(Vfs& vfs, const std::string& root, uint64_t scale = 1) {
  Loaded out;
  std::set<std::string> avoid;
  while (true) {
    std::vector<std::pair<std::string, std::string>> skipped;
    const auto reader = TRY(open_newest(vfs, root, std::nullopt, skipped, avoid));
    out.skipped.insert(out.skipped.end(), skipped.begin(), skipped.end());
    if (reader == nullptr) return out;
    const auto salt = check_content(*reader, scale);
    out.id = reader->manifest().id;
    if (salt.ok()) {
      out.salt = *salt;
      return out;
    }
    if (reader->damage().empty()) return salt.error();  // wrong bytes came out of it
    out.skipped.emplace_back(reader->directory(), salt.error().message);
    if (!avoid.insert(reader->directory()).second) return Error{"it was avoided already"};
  }
}

}  // namespace shanty::ckpt
