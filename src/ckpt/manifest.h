#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ckpt/layout.h"
#include "ckpt/score.h"

namespace shanty::ckpt {

// Names of docs/formats/checkpoint.md.
struct CheckpointId {
  uint64_t step = 0;
  uint64_t generation = 0;
  uint64_t attempt = 1;
  auto operator<=>(const CheckpointId&) const = default;
};
std::string visible_name(const CheckpointId& id);      // "step-000001200.g0007.a01"
std::string in_progress_name(const CheckpointId& id);  // ".inprogress-step-..."
// Of either name; nullopt for any other.
std::optional<CheckpointId> parse_checkpoint_name(std::string_view name);
bool is_in_progress_name(std::string_view name);
// Each number small enough to be read back from a name.
Status check_id(const CheckpointId& id);

constexpr std::string_view kManifestName = "MANIFEST.json";

// A path of a file of a checkpoint, within its directory: relative, no empty or hidden part, no
// ".." and no manifest.
bool is_safe_path(std::string_view path);

struct StoredFile {
  std::string path;
  int rank = 0;
  uint64_t bytes = 0;
  std::vector<uint32_t> crc32c;  // one per kChunkBytes
  std::string xxh3;              // 32 hex digits
};

struct StoredPiece {
  size_t file = 0;  // index into Manifest::files
  uint64_t at = 0;
  Box box;
};

struct StoredTensor {
  std::string dtype;
  uint64_t element_bytes = 0;
  std::vector<uint64_t> shape;
  Group group = Group::kModel;
  std::vector<StoredPiece> pieces;
};

struct Manifest {
  CheckpointId id;
  std::string run;
  int world_size = 1;
  int64_t created_unix_ns = 0;  // later than that of all that was committed before
  uint64_t number = 0;          // of the save among its job's (docs/formats/checkpoint-engine.md)
  std::vector<StoredFile> files;
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> aliases;
  std::string global_json = "{}";  // one JSON object, at most kMaxGlobalNesting deep
};

constexpr size_t kMaxGlobalNesting = 48;

// What a rank that wrote the files of `layout` tells of its tensors: files are counted as in
// `layout`, empty boxes are left out.
std::map<std::string, StoredTensor> stored_tensors(const std::vector<PieceSpec>& pieces,
                                                   const Layout& layout);

// What the first line alone tells.
struct ManifestSummary {
  CheckpointId id;
  std::string run;
  int world_size = 0;
  int64_t created_unix_ns = 0;
  uint64_t number = 0;  // 0: it does not say
  uint64_t bytes = 0;
  uint64_t tensors = 0;
  uint64_t body_bytes = 0;
  std::string body_sha256;
  uint64_t head_bytes = 0;  // of the first line with its newline
  Score score;              // a copy of what `global` says
};

constexpr size_t kMaxSummaryBytes = 4096;
constexpr uint64_t kMaxManifestBytes = uint64_t{1} << 32;

// A global_json that is no object is written as an empty one.
std::string encode_manifest(const Manifest& manifest);
// `text` begins with the first line; what follows it is not looked at.
Result<ManifestSummary> decode_summary(std::string_view text);
// Checks both checksums, every number and path (no "..", no absolute path), and coverage.
Result<Manifest> decode_manifest(std::string_view text);

// Every element of every tensor exactly once; the error names the tensor and the place. In
// O(n log n) of the number of pieces for tensors cut along one dimension.
Status check_coverage(const Manifest& manifest);

}  // namespace shanty::ckpt
