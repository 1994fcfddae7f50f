#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "ckpt/manifest.h"

namespace shanty::ckpt {

// What a manifest's second line and a receipt have in common: `files`, `tensors`, `aliases`.
struct StoredParts {
  std::vector<StoredFile> files;
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> aliases;
};

// `"files":[..],"tensors":{..},"aliases":{..}`, without braces around it. Text and not a tree of
// JSON values, since there may be 100,000 pieces.
std::string encode_parts(const std::vector<StoredFile>& files,
                         const std::map<std::string, StoredTensor>& tensors,
                         const std::map<std::string, std::string>& aliases);

// Every number, name and path is checked; ranks lie below `world_size`. Coverage is not checked.
Result<StoredParts> decode_parts(const nlohmann::json& object, int world_size);

constexpr size_t kMaxManifestNesting = 64;

}  // namespace shanty::ckpt
