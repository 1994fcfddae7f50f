#include "ckpt/reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "ckpt/checked_file.h"
#include "ckpt/open_checkpoint.h"
#include "ckpt/parallel.h"
#include "ckpt/piece_index.h"
#include "ckpt/store_files.h"
#include "text/utf8.h"

namespace shanty::ckpt {
namespace {

constexpr uint64_t kWindowBytes = 1 << 20;  // what one thread reads at a time, and its cache holds
constexpr uint64_t kChunksPerWindow = kWindowBytes / kChunkBytes;
constexpr uint64_t kMaxSmallFileBytes = uint64_t{1} << 30;
constexpr size_t kMaxDamageKept = 1000;
static_assert(kWindowBytes % kChunkBytes == 0);

// What is wanted of one window of one file.
struct Window {
  size_t file = 0;
  uint64_t begin = 0;
  std::vector<const Intersection*> parts;
};

// The bytes of a window that are wanted, per chunk: [low, high) in the file, low >= high for none.
struct Touched {
  uint64_t low = UINT64_MAX;
  uint64_t high = 0;
};

using TouchedChunks = std::array<Touched, kChunksPerWindow>;

// Calls `use(begin, end, target)` for each piece of a run within [begin, end) of the file.
template <typename Use>
void for_each_run(const Intersection& part, uint64_t begin, uint64_t end, Use use) {
  for (uint64_t run = part.first_run_after(begin); run < part.runs(); ++run) {
    const uint64_t at = part.file_offset(run);
    if (at >= end) return;
    const uint64_t from = std::max(at, begin);
    const uint64_t to = std::min(at + part.run_bytes(), end);
    use(from, to, part.target(run) + (from - at));
  }
}

TouchedChunks touched_chunks(const Window& window) {
  TouchedChunks out;
  for (const Intersection* part : window.parts) {
    const auto touch = [&](uint64_t from, uint64_t to, const char* /*target*/) {
      for (uint64_t at = from; at < to;) {
        const uint64_t chunk_end = std::min(to, (at / kChunkBytes + 1) * kChunkBytes);
        Touched& touched = out[(at - window.begin) / kChunkBytes];
        touched.low = std::min(touched.low, at);
        touched.high = std::max(touched.high, chunk_end);
        at = chunk_end;
      }
    };
    for_each_run(*part, window.begin, window.begin + kWindowBytes, touch);
  }
  return out;
}

class Reader : public CheckpointReader {
 public:
  Reader(Vfs& vfs, std::string directory, Manifest manifest)
      : directory_(std::move(directory)), manifest_(std::move(manifest)) {
    for (const StoredFile& stored : manifest_.files) files_.emplace_back(vfs, directory_, stored);
  }

  const Manifest& manifest() const override { return manifest_; }
  const std::string& directory() const override { return directory_; }

  Status read(const std::vector<Want>& wants, int threads, const Deliver& deliver) override {
    std::deque<Intersection> parts;
    const std::vector<Window> windows = TRY(plan(wants, parts));
    std::mutex mutex;
    Status first;
    for_each_parallel(windows.size(), threads, [&](size_t i) {
      const Status done = read_window(windows[i], deliver);
      if (done.ok()) return true;
      const std::lock_guard lock(mutex);
      if (first.ok()) first = done;
      return false;
    });
    return first;
  }

  Result<std::string> read_file(const std::string& path) override {
    const std::string what = "reading " + path + " of " + directory_;
    for (CheckedFile& file : files_) {
      if (file.stored().path != path) continue;
      if (file.stored().bytes > kMaxSmallFileBytes) return Error{what + ": more than 1 GiB"};
      std::string text(file.stored().bytes, '\0');
      if (text.empty()) return text;
      TRY_STATUS(note(file.read_chunks(0, file.stored().crc32c.size(), text.data())));
      return text;
    }
    return Error{what + ": the manifest has no such file"};
  }

  std::vector<Damage> damage() const override {
    const std::lock_guard lock(damage_mutex_);
    return damage_;
  }

 private:
  Status note(const std::optional<Damage>& damage) {
    if (!damage) return {};
    const std::lock_guard lock(damage_mutex_);
    if (damage_.size() < kMaxDamageKept) damage_.push_back(*damage);
    return Error{fmt::format("reading {}: {}", directory_, describe(*damage))};
  }

  Result<const std::pair<const std::string, StoredTensor>*> find(const std::string& name) const {
    if (const auto* found = find_tensor(manifest_, name)) return found;
    return Error{"reading " + directory_ + ": there is no tensor " + in_quotes(name)};
  }

  const PieceIndex& index_of(const std::string& name, const StoredTensor& tensor) {
    const std::lock_guard lock(index_mutex_);
    return indexes_.try_emplace(name, tensor).first->second;
  }

  // All that the wants have in common with stored pieces, by the windows of files it lies in.
  Result<std::vector<Window>> plan(const std::vector<Want>& wants,
                                   std::deque<Intersection>& parts) {
    std::map<std::pair<size_t, uint64_t>, Window> windows;
    const auto add = [&](const StoredPiece& piece, const Intersection& part) {
      for (uint64_t at = part.file_begin() / kWindowBytes * kWindowBytes; at < part.file_end();
           at += kWindowBytes) {
        Window& window = windows[{piece.file, at}];
        window.file = piece.file;
        window.begin = at;
        window.parts.push_back(&part);
      }
    };
    for (const Want& want : wants) {
      const auto* found = TRY(find(want.name));
      const StoredTensor& tensor = found->second;
      char* out = want.out;
      for (const Box& box : want.boxes) {
        TRY_STATUS(
            check_box(box, tensor.shape)
                .context(fmt::format("reading tensor {} of {}", in_quotes(want.name), directory_)));
        const uint64_t count = TRY(element_count(box.shape));
        if (count == 0) continue;
        for (const StoredPiece* piece : index_of(found->first, tensor).find(box)) {
          add(*piece, parts.emplace_back(*piece, box, tensor.element_bytes, out));
        }
        out += count * tensor.element_bytes;
      }
    }
    std::vector<Window> out;
    out.reserve(windows.size());
    for (auto& [key, window] : windows) out.push_back(std::move(window));
    return out;
  }

  Status read_window(const Window& window, const Deliver& deliver) {
    thread_local AlignedBuffer buffer(kWindowBytes);
    const TouchedChunks touched = touched_chunks(window);
    for (uint64_t first = 0; first < kChunksPerWindow;) {
      uint64_t last = first;
      while (last < kChunksPerWindow && touched[last].low < touched[last].high) ++last;
      if (last > first) TRY_STATUS(read_part(window, touched, first, last, buffer, deliver));
      first = last + 1;
    }
    return {};
  }

  // Chunks [first, last) of the window, all touched: only what is wanted of them where all were
  // checked before, else all of them.
  Status read_part(const Window& window, const TouchedChunks& touched, uint64_t first,
                   uint64_t last, AlignedBuffer& buffer, const Deliver& deliver) {
    CheckedFile& file = files_[window.file];
    const uint64_t chunk = window.begin / kChunkBytes;
    uint64_t begin = window.begin + first * kChunkBytes;
    uint64_t end = window.begin + last * kChunkBytes;
    bool checked = true;
    for (uint64_t i = first; i < last; ++i) checked = checked && file.is_checked(chunk + i);
    if (checked) {
      begin = touched[first].low;
      end = touched[last - 1].high;
    }
    TRY_STATUS(note(checked ? file.read_again(begin, end, buffer.data())
                            : file.read_chunks(chunk + first, chunk + last, buffer.data())));
    std::vector<Run> runs;
    for (const Intersection* part : window.parts) {
      for_each_run(*part, begin, end, [&](uint64_t from, uint64_t to, char* target) {
        runs.push_back({buffer.data() + (from - begin), target, to - from});
      });
    }
    return deliver(runs);
  }

  std::string directory_;
  Manifest manifest_;
  std::deque<CheckedFile> files_;
  std::mutex index_mutex_;
  std::map<std::string, PieceIndex> indexes_;
  mutable std::mutex damage_mutex_;
  std::vector<Damage> damage_;
};

}  // namespace

const std::pair<const std::string, StoredTensor>* find_tensor(const Manifest& manifest,
                                                              const std::string& name) {
  const auto alias = manifest.aliases.find(name);
  const auto found = manifest.tensors.find(alias == manifest.aliases.end() ? name : alias->second);
  return found == manifest.tensors.end() ? nullptr : &*found;
}

Status copy_runs(const std::vector<Run>& runs) {
  for (const Run& run : runs) std::memcpy(run.to, run.from, run.bytes);
  return {};
}

Result<std::unique_ptr<CheckpointReader>> open_checkpoint(Vfs& vfs, const std::string& directory) {
  const std::string what = "opening " + directory;
  Manifest manifest = TRY(load_manifest(vfs, directory).context(what));
  const std::vector<Damage> damage = check_sizes(vfs, directory, manifest);
  if (!damage.empty()) return Error{what + ": " + describe(damage)};
  return std::unique_ptr<CheckpointReader>(
      std::make_unique<Reader>(vfs, directory, std::move(manifest)));
}

}  // namespace shanty::ckpt
