#include "ckpt/manifest_json.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "text/json_fields.h"
#include "base/base64.h"
#include "text/utf8.h"

namespace shanty::ckpt {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little);

constexpr uint64_t kMaxFileBytes = std::numeric_limits<int64_t>::max();
constexpr size_t kXxh3Digits = 32;
constexpr size_t kMaxDtypeBytes = 64;

std::string quoted(const std::string& text) { return print_json(json(text)); }

std::string numbers(const std::vector<uint64_t>& values) {
  return fmt::format("[{}]", fmt::join(values, ","));
}

std::string_view group_name(Group group) { return group == Group::kModel ? "model" : "optim"; }

std::string encode_crcs(const std::vector<uint32_t>& crcs) {
  return encode_base64(
      {reinterpret_cast<const char*>(crcs.data()), crcs.size() * sizeof(uint32_t)});
}

std::optional<uint64_t> as_number(const json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  return value.get<uint64_t>();
}

Result<std::vector<uint64_t>> as_numbers(const json& value, const char* what) {
  if (!value.is_array() || value.size() > kMaxDimensions) {
    return Error{fmt::format("its {} is no list of at most {} numbers", what, kMaxDimensions)};
  }
  std::vector<uint64_t> out;
  for (const json& item : value) {
    const auto number = as_number(item);
    if (!number) return Error{fmt::format("its {} holds what is no number from 0 on", what)};
    out.push_back(*number);
  }
  return out;
}

Result<std::vector<uint32_t>> decode_crcs(const std::string& text, uint64_t file_bytes) {
  const auto bytes = decode_base64(text);
  const uint64_t chunks = file_bytes / kChunkBytes + (file_bytes % kChunkBytes != 0 ? 1 : 0);
  if (!bytes || bytes->size() % sizeof(uint32_t) != 0 ||
      bytes->size() / sizeof(uint32_t) != chunks) {
    return Error{"its crc32c is not base64 of one number per MiB"};
  }
  std::vector<uint32_t> out(chunks);
  if (!out.empty()) std::memcpy(out.data(), bytes->data(), bytes->size());
  return out;
}

bool is_hex(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

Result<StoredFile> decode_file(const json& object, int world_size) {
  StoredFile file;
  file.path = json_string(object, "path");
  if (!is_safe_path(file.path)) return Error{"its path is none within the directory"};
  file.rank = json_int(object, "rank", -1);
  if (file.rank < 0 || file.rank >= world_size) return Error{"its rank is not in the world"};
  file.bytes = json_uint64(object, "bytes", std::numeric_limits<uint64_t>::max());
  if (file.bytes > kMaxFileBytes) return Error{"it has no believable size"};
  file.crc32c = TRY(decode_crcs(json_string(object, "crc32c"), file.bytes));
  file.xxh3 = json_string(object, "xxh3");
  if (file.xxh3.size() != kXxh3Digits || !is_hex(file.xxh3)) {
    return Error{"its xxh3 is not 32 hex digits"};
  }
  return file;
}

// One `[file, at, offsets, shape]` of `tensor`.
Result<StoredPiece> decode_piece(const json& value, const StoredTensor& tensor,
                                 const std::vector<StoredFile>& files) {
  if (!value.is_array() || value.size() != 4) return Error{"a piece is not [file, at, ..]"};
  const auto file = as_number(value[0]);
  const auto at = as_number(value[1]);
  if (!file || *file >= files.size() || !at) return Error{"a piece lies in no file"};
  StoredPiece piece{.file = static_cast<size_t>(*file), .at = *at};
  piece.box.offsets = TRY(as_numbers(value[2], "offsets"));
  piece.box.shape = TRY(as_numbers(value[3], "shape"));
  TRY_STATUS(check_box(piece.box, tensor.shape));
  // A box within the tensor has no more bytes than the tensor, whose bytes were checked.
  const uint64_t bytes = TRY(element_count(piece.box.shape)) * tensor.element_bytes;
  const uint64_t size = files[piece.file].bytes;
  if (bytes > size || piece.at > size - bytes) {
    return Error{fmt::format("a piece reaches beyond the end of {}", files[piece.file].path)};
  }
  return piece;
}

Result<StoredTensor> decode_tensor(const json& object, const std::vector<StoredFile>& files) {
  StoredTensor tensor;
  tensor.dtype = json_string(object, "dtype");
  if (tensor.dtype.empty() || tensor.dtype.size() > kMaxDtypeBytes) return Error{"no dtype"};
  const auto known = dtype_bytes(tensor.dtype);
  tensor.element_bytes = known ? *known : json_uint64(object, "element_bytes");
  if (tensor.element_bytes == 0 || tensor.element_bytes > kMaxElementBytes) {
    return Error{fmt::format("dtype {} is not known and has no element_bytes", tensor.dtype)};
  }
  const std::string group = json_string(object, "group");
  if (group != "model" && group != "optim") return Error{"its group is neither model nor optim"};
  tensor.group = group == "model" ? Group::kModel : Group::kOptim;
  const auto shape = object.find("shape");
  if (shape == object.end()) return Error{"no shape"};
  tensor.shape = TRY(as_numbers(*shape, "shape"));
  if (TRY(element_count(tensor.shape)) > kMaxFileBytes / tensor.element_bytes) {
    return Error{"more bytes than fit 63 bits"};
  }
  const json* pieces = json_array(object, "pieces");
  if (pieces == nullptr) return Error{"no pieces"};
  tensor.pieces.reserve(pieces->size());
  for (const json& piece : *pieces) {
    tensor.pieces.push_back(TRY(decode_piece(piece, tensor, files)));
  }
  return tensor;
}

Status decode_files(const json& object, int world_size, StoredParts& parts) {
  const json* files = json_array(object, "files");
  if (files == nullptr) return Error{"no files"};
  std::set<std::string_view> paths;
  parts.files.reserve(files->size());  // `paths` holds views of them
  for (size_t i = 0; i < files->size(); ++i) {
    parts.files.push_back(
        TRY(decode_file((*files)[i], world_size).context(fmt::format("file {}", i))));
    if (!paths.insert(parts.files.back().path).second) {
      return Error{fmt::format("file {} is there twice", parts.files.back().path)};
    }
  }
  return {};
}

Status decode_aliases(const json& object, StoredParts& parts) {
  const json* aliases = json_object(object, "aliases");
  if (aliases == nullptr) return {};
  for (const auto& [name, target] : aliases->items()) {
    if (!is_storable_name(name) || !target.is_string() || parts.tensors.contains(name)) {
      return Error{"alias " + in_quotes(name) + " is none"};
    }
    parts.aliases[name] = target.get<std::string>();
  }
  return {};
}

}  // namespace

std::string encode_parts(const std::vector<StoredFile>& files,
                         const std::map<std::string, StoredTensor>& tensors,
                         const std::map<std::string, std::string>& aliases) {
  std::string out = "\"files\":[";
  for (const StoredFile& file : files) {
    if (&file != files.data()) out += ',';
    out += fmt::format(R"({{"path":{},"rank":{},"bytes":{},"crc32c":"{}","xxh3":{}}})",
                       quoted(file.path), file.rank, file.bytes, encode_crcs(file.crc32c),
                       quoted(file.xxh3));
  }
  out += "],\"tensors\":{";
  const char* comma = "";
  for (const auto& [name, tensor] : tensors) {
    out += fmt::format(R"({}{}:{{"dtype":{},"shape":{},"group":"{}")", comma, quoted(name),
                       quoted(tensor.dtype), numbers(tensor.shape), group_name(tensor.group));
    if (!dtype_bytes(tensor.dtype)) {
      out += fmt::format(R"(,"element_bytes":{})", tensor.element_bytes);
    }
    out += ",\"pieces\":[";
    for (const StoredPiece& piece : tensor.pieces) {
      if (&piece != tensor.pieces.data()) out += ',';
      out += fmt::format("[{},{},{},{}]", piece.file, piece.at, numbers(piece.box.offsets),
                         numbers(piece.box.shape));
    }
    out += "]}";
    comma = ",";
  }
  out += "},\"aliases\":{";
  comma = "";
  for (const auto& [name, target] : aliases) {
    out += fmt::format("{}{}:{}", comma, quoted(name), quoted(target));
    comma = ",";
  }
  return out + "}";
}

Result<StoredParts> decode_parts(const json& object, int world_size) {
  StoredParts parts;
  TRY_STATUS(decode_files(object, world_size, parts));
  const json* tensors = json_object(object, "tensors");
  if (tensors == nullptr) return Error{"no tensors"};
  for (const auto& [name, value] : tensors->items()) {
    if (!is_storable_name(name)) return Error{"a tensor without a usable name"};
    if (!value.is_object()) return Error{"tensor " + in_quotes(name) + " is no object"};
    auto tensor = decode_tensor(value, parts.files);
    if (!tensor) return Error{"tensor " + in_quotes(name) + ": " + tensor.error().message};
    // In the order of the map: objects are sorted.
    parts.tensors.emplace_hint(parts.tensors.end(), name, std::move(*tensor));
  }
  TRY_STATUS(decode_aliases(object, parts));
  return parts;
}

}  // namespace shanty::ckpt
