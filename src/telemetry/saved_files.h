#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "run/run_dir.h"

namespace shanty {

enum class SavedState {
  kWhole,
  kDamaged,
  kMissing,
  kUnknown,  // of a format that is not checked here
};
const char* to_string(SavedState state);

// A checkpoint that the script wrote by itself, with torch.save or torch.distributed.checkpoint, or
// one of shanty.Checkpointer.
struct SavedFile {
  std::string path;  // where it lies now: a file that was renamed is followed within its directory
  uint64_t step = 0;
  int64_t unix_ns = 0;
  uint64_t inode = 0;  // 0 = not known
  bool by_shanty = false;
  SavedState state = SavedState::kUnknown;
  std::string problem;  // of a damaged one
};

// What was told in saves/ (docs/formats/run-directory.md), each path once, newest first, at most
// kMaxSavedFiles, looked at as they are now. What shanty.Checkpointer has pruned is left out.
constexpr size_t kMaxSavedFiles = 64;
std::vector<SavedFile> read_saved_files(const RunDir& run);

// A save of shanty.Checkpointer that will never be a checkpoint.
struct FailedSave {
  uint64_t step = 0;
  int64_t unix_ns = 0;
  std::string why;
};

// What the workers told in saves/ of these: each step once, with what the first rank to tell said,
// by time, at most kMaxFailedSaves.
constexpr size_t kMaxFailedSaves = 10'000;
std::vector<FailedSave> read_failed_saves(const RunDir& run);

// Looks at a file or directory. A file of torch.save must be a zip archive with its end in place
// (or an old pickle, which is not checked); a directory of torch.distributed.checkpoint must have
// its .metadata and data, one of shanty.Checkpointer its manifest (`shanty ckpt verify` reads all).
void check_saved_file(SavedFile& saved);

}  // namespace shanty
