#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ckpt/arrival.h"
#include "ckpt/manifest.h"
#include "ckpt/rate_limit.h"
#include "ckpt/vfs.h"

namespace shanty::ckpt {

// The directory of checkpoints: what docs/formats/checkpoint.md says of commit, fencing, reading
// and pruning. All functions may block on storage.

// What one rank has written, for rank 0.
struct Receipt {
  int rank = 0;
  std::vector<StoredFile> files;
  std::map<std::string, StoredTensor> tensors;  // pieces count files of this receipt
  std::map<std::string, std::string> aliases;
};
std::string encode_receipt(const Receipt& receipt);
Result<Receipt> decode_receipt(std::string_view text);

// Puts into `manifest`, which has its world_size, what the receipts of all ranks say together.
// Errors: a rank is missing or there twice, ranks disagree.
Status merge_receipts(const std::vector<Receipt>& receipts, Manifest& manifest);

// The right of one generation to commit.
struct Fence {
  std::string root;
  std::string run;
  uint64_t generation = 0;
  std::string nonce;
  // When the newest there was created: what is committed comes after it.
  int64_t newest_unix_ns = 0;
};

// Rank 0, once: makes `root` (and its parents) where it is missing, refuses a root that a newer
// generation of the same run holds, replaces GENERATION, finishes commits that a crash cut short
// (visible rename, `latest`), moves uncommitted leftovers of others into .trash/ and empties that.
Result<Fence> open_root(Vfs& vfs, const std::string& root, const std::string& run,
                        uint64_t generation);

// The id for the next attempt to save `step`: one that no directory under the root has.
Result<CheckpointId> next_id(Vfs& vfs, const Fence& fence, uint64_t step);

// Rank 0, before any rank writes: makes .inprogress-... with model/, optim/, state/ in it, synced.
// Refuses an id that exists, under either name, and a fence that is not the newest any more.
Status make_in_progress(Vfs& vfs, const Fence& fence, const CheckpointId& id);

struct WriteOptions {
  int threads = 2;             // writes in flight
  bool direct = true;          // false: the image may not be read beyond its end
  RateLimit* limit = nullptr;  // nullptr = none
  const std::atomic<bool>* cancel = nullptr;
  const Arrival* arrival = nullptr;  // of the images' bytes; nullptr = they are there
};

// One file of a rank from memory: `image` begins at a multiple of 4096 and may be read up to the
// next multiple after its end. O_DIRECT where possible. Synced and closed, both checked; on any
// error the file is removed and the error returned. `crc32c` per chunk is taken as given when not
// empty, else computed; xxh3 is computed here. The caller syncs the directory with sync_written.
Result<StoredFile> write_image(Vfs& vfs, const std::string& in_progress_dir,
                               const std::string& path, int rank, std::string_view image,
                               std::vector<uint32_t> crc32c, const WriteOptions& options);
// CRC32C of each kChunkBytes, as in StoredFile.
std::vector<uint32_t> chunk_checksums(std::string_view bytes);

// A committed checkpoint's directory and files.
struct LinkSource {
  std::string directory;
  std::vector<StoredFile> files;
};
// As write_image; but where `source` has the same bytes under the same path, by their checksums, a
// hard link to that file takes the place of writing.
Result<StoredFile> link_or_write_image(Vfs& vfs, const std::string& in_progress_dir,
                                       const std::string& path, int rank, std::string_view image,
                                       const LinkSource& source, const WriteOptions& options);
// The directories of the files that this rank wrote.
Status sync_written(Vfs& vfs, const std::string& in_progress_dir,
                    const std::vector<StoredFile>& files);

// Rank 0: all receipts of `world_size` ranks -> committed, then visible, then `latest`. After an
// error the checkpoint is not committed and the caller abandons it (a crash before that may leave
// it committed, if the manifest's rename was all that was done). Errors after the commit are
// returned as `note` since the commit stands.
struct Committed {
  std::string directory;  // under its visible name where that worked
  std::string note;       // "" or what could not be done after the commit
  int64_t created_unix_ns = 0;
};
Result<Committed> commit(Vfs& vfs, const Fence& fence, const CheckpointId& id, int world_size,
                         const std::vector<Receipt>& receipts, const std::string& global_json,
                         uint64_t number = 0);

// Gives an attempt that was not committed up: renames it into .trash/ and deletes it. Best effort.
void abandon(Vfs& vfs, const Fence& fence, const CheckpointId& id);

enum class CheckpointState { kCommitted, kInProgress, kDamaged };
struct Listed {
  std::string directory;  // full path
  CheckpointId id;
  CheckpointState state = CheckpointState::kInProgress;
  bool pinned = false;
  bool best = false;    // one of those that the newest one's rule keeps
  std::string problem;  // of a damaged one
  std::optional<ManifestSummary> summary;
};
// Newest first: what was committed last, whatever its step, since a run may be taken back to an
// older checkpoint and go on from there. Reads the first line of each manifest only: damage
// elsewhere is not seen. A missing root has none.
Result<std::vector<Listed>> list_checkpoints(Vfs& vfs, const std::string& root);

// Sets `best` of those that `rule` keeps: committed, with that metric; of equal ones the newest.
// `all` is newest first.
void mark_best(std::vector<Listed>& all, const std::optional<BestRule>& rule);

Status pin(Vfs& vfs, const std::string& checkpoint_dir, const std::string& why);

struct PruneOptions {
  size_t keep = 3;  // newest committed ones, >= 1
  bool dry_run = false;
  std::optional<BestRule> best;  // in place of what the newest one says
  // Reads a checkpoint back whole; prune asks it of the newest until one is whole.
  std::function<bool(const Listed&)> is_whole;
};
// Returns what was (or would be) removed: committed checkpoints that are older than the newest one
// that reads back whole, not among the newest `keep`, not the best, not pinned and not leased by a
// reader (lease.h). Damaged ones stay for people to look at. Removes nothing when no checkpoint
// reads back whole.
Result<std::vector<Listed>> prune(Vfs& vfs, const std::string& root, const PruneOptions& options);

}  // namespace shanty::ckpt
