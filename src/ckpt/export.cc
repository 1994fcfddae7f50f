#include "ckpt/export.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "ckpt/blocks.h"
#include "ckpt/store_files.h"
#include "text/json_fields.h"

namespace shanty::ckpt {
namespace {

using nlohmann::json;

// As safetensors wants it: the widest elements first, so that each is aligned.
std::vector<std::pair<std::string, const StoredTensor*>> in_order(const Manifest& manifest,
                                                                  bool optimizer) {
  std::vector<std::pair<std::string, const StoredTensor*>> tensors;
  for (const auto& [name, tensor] : manifest.tensors) {
    if (optimizer || tensor.group == Group::kModel) tensors.emplace_back(name, &tensor);
  }
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return a.second->element_bytes > b.second->element_bytes;
  });
  return tensors;
}

std::string length_prefix(uint64_t value) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>((value >> (8 * i)) & 0xFF);
  return bytes;
}

}  // namespace

Result<uint64_t> export_safetensors(Vfs& vfs, CheckpointReader& reader,
                                    const ExportOptions& options) {
  if (TRY(vfs.info(options.path)).exists) {
    return Error{"exporting to " + options.path + ": it exists; choose another name"};
  }
  const auto tensors = in_order(reader.manifest(), options.optimizer);
  if (tensors.empty()) return Error{"exporting " + reader.directory() + ": it has no tensors"};
  json header;
  // Tied tensors as safetensors.torch.save_model tells of them: the name left out, then the one
  // kept.
  header["__metadata__"] = {{"format", "pt"}};
  for (const auto& [name, target] : reader.manifest().aliases) {
    const auto& tied = reader.manifest().tensors.at(target);
    if (options.optimizer || tied.group == Group::kModel) header["__metadata__"][name] = target;
  }
  uint64_t at = 0;
  for (const auto& [name, tensor] : tensors) {
    std::vector<uint64_t> shape = tensor->shape;
    const bool known = dtype_bytes(tensor->dtype).has_value();
    if (!known) shape.push_back(tensor->element_bytes);
    const uint64_t bytes = TRY(element_count(tensor->shape)) * tensor->element_bytes;
    header[name] = {{"dtype", known ? tensor->dtype : "U8"},
                    {"shape", shape},
                    {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  std::string head = print_json(header);
  head.resize((head.size() + 7) / 8 * 8, ' ');
  const std::string temporary = options.path + ".partial";
  const auto write = [&]() -> Result<uint64_t> {
    const auto file = TRY(vfs.open(temporary, {.create = true, .write = true}));
    TRY_STATUS(file->write_at(0, length_prefix(head.size()) + head));
    uint64_t offset = 8 + head.size();
    for (const auto& [name, tensor] : tensors) {
      const auto append = [&](std::string_view bytes) {
        Status appended = file->write_at(offset, bytes);
        offset += bytes.size();
        return appended;
      };
      TRY_STATUS(read_blocks(reader, name, options.threads, append));
    }
    TRY_STATUS(file->sync());
    TRY_STATUS(file->close());
    TRY_STATUS(vfs.rename(temporary, options.path));
    TRY_STATUS(vfs.sync_directory(parent_of(options.path)));
    return offset;
  };
  auto written = write();
  if (!written.ok()) discard(vfs.remove_file(temporary), "the first error counts");
  return written;
}

}  // namespace shanty::ckpt
