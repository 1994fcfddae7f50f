#pragma once

#include <string>
#include <vector>

#include "ckpt/reader.h"

namespace shanty::ckpt {

// What reader and verifier share.

// The manifest of a directory, checked by itself and, where the directory has such a name, against
// that.
Result<Manifest> load_manifest(Vfs& vfs, const std::string& directory);
// Files that are missing or have another size than the manifest says.
std::vector<Damage> check_sizes(Vfs& vfs, const std::string& directory, const Manifest& manifest);
// The first of them and how many more.
std::string describe(const std::vector<Damage>& damage);

}  // namespace shanty::ckpt
