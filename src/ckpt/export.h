#pragma once

#include <string>

#include "base/result.h"
#include "ckpt/reader.h"
#include "ckpt/vfs.h"

namespace shanty::ckpt {

struct ExportOptions {
  std::string path;        // of the new file; an existing one is an error
  bool optimizer = false;  // the optimizer's tensors too
  int threads = 2;
};

// One consolidated .safetensors file with every tensor whole under its own name (tied tensors
// once). Written under a temporary name, synced, renamed. Returns the bytes written.
Result<uint64_t> export_safetensors(Vfs& vfs, CheckpointReader& reader,
                                    const ExportOptions& options);

}  // namespace shanty::ckpt
