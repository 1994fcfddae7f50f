#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "ckpt/manifest.h"
#include "ckpt/vfs.h"

namespace shanty::ckpt {

// What is wanted of one tensor, to be put row-major at `out`.
struct Want {
  std::string name;  // an alias is followed
  std::vector<Box> boxes;
  char* out = nullptr;  // room for all boxes, one after the other
};

// Checked bytes on their way to a want's `out`.
struct Run {
  const char* from = nullptr;
  char* to = nullptr;
  uint64_t bytes = 0;
};
// Puts them there; called from several threads at once. An error ends the read.
using Deliver = std::function<Status(const std::vector<Run>& runs)>;
Status copy_runs(const std::vector<Run>& runs);  // within this process

// The tensor of that name, or of which it is an alias, under its own name; nullptr: there is none.
const std::pair<const std::string, StoredTensor>* find_tensor(const Manifest& manifest,
                                                              const std::string& name);

struct Damage {
  std::string file;               // in the checkpoint directory
  std::optional<uint64_t> chunk;  // of kChunkBytes; absent: the file as a whole
  std::string what;  // "checksum does not match", "is 12 bytes short", "cannot be read: ..."
};
std::string describe(const Damage& damage);

// One committed checkpoint, opened for reading. Every byte that leaves it was checked against its
// chunk's CRC32C; a chunk that was checked once through this object is not checked again.
// Thread-safe.
class CheckpointReader {
 public:
  virtual ~CheckpointReader() = default;
  virtual const Manifest& manifest() const = 0;
  virtual const std::string& directory() const = 0;
  // Fills all wants; ranges that lie near each other are read in one go, by `threads` threads.
  // Error: a name that is not there, a box outside of the tensor, damage (then see damage()), or
  // what `deliver` said.
  virtual Status read(const std::vector<Want>& wants, int threads,
                      const Deliver& deliver = copy_runs) = 0;
  // One whole small file of the manifest, checked.
  virtual Result<std::string> read_file(const std::string& path) = 0;
  // The damage met so far.
  virtual std::vector<Damage> damage() const = 0;
};

Result<std::unique_ptr<CheckpointReader>> open_checkpoint(Vfs& vfs, const std::string& directory);

// The newest committed one under `root` (at most `step` where given) whose manifest is whole and
// whose files have their sizes; `skipped` is told the directory and why of each newer one that
// is not. Directories named in `avoid` are passed over: those in which a read met damage. nullptr:
// there is none.
Result<std::unique_ptr<CheckpointReader>> open_newest(
    Vfs& vfs, const std::string& root, std::optional<uint64_t> step,
    std::vector<std::pair<std::string, std::string>>& skipped,
    const std::set<std::string>& avoid = {});

// Reads every byte (from the device where possible) and checks CRC32C and XXH3.
// Ends early, with what was found by then, once `cancel` is set.
std::vector<Damage> verify_checkpoint(Vfs& vfs, const std::string& directory, int threads,
                                      const std::atomic<bool>* cancel = nullptr);

}  // namespace shanty::ckpt
