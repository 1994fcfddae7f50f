#include "ckpt/read_into.h"

#include <utility>

#include "ckpt/piece_index.h"
#include "ckpt/pull.h"

namespace shanty::ckpt {
namespace {

// The kernel takes some 0.2 us for each run, so shorter ones are put together here first.
constexpr uint64_t kMinRunBytes = 512;
constexpr uint64_t kTogetherBytes = uint64_t{64} << 20;  // at a time, unless one want is larger

bool is_scattered(const StoredTensor& tensor, const Want& want) {
  // As most are: the whole of a tensor that lies in one piece.
  if (tensor.pieces.size() == 1 && want.boxes == std::vector<Box>{tensor.pieces[0].box}) {
    return false;
  }
  for (const Box& box : want.boxes) {
    if (box.offsets.size() != tensor.shape.size()) return false;
    for (const StoredPiece* piece : PieceIndex(tensor).find(box)) {
      const Intersection part(*piece, box, tensor.element_bytes, nullptr);
      if (part.runs() > 1 && part.run_bytes() < kMinRunBytes) return true;
    }
  }
  return false;
}

Status push_runs(pid_t pid, const std::vector<Run>& runs) {
  std::vector<Push> pushes;
  for (const Run& run : runs) {
    pushes.push_back({run.from, reinterpret_cast<uint64_t>(run.to), run.bytes});
  }
  return push_memory(pid, pushes);
}

// Wants of `bytes[i]` each, through memory of this process.
Status read_together(pid_t pid, CheckpointReader& reader, std::vector<Want> wants,
                     const std::vector<uint64_t>& bytes, int threads) {
  uint64_t total = 0;
  for (const uint64_t count : bytes) total += count;
  std::vector<char> memory(total);
  std::vector<Push> pushes;
  char* at = memory.data();
  for (size_t i = 0; i < wants.size(); ++i) {
    pushes.push_back({at, reinterpret_cast<uint64_t>(wants[i].out), bytes[i]});
    wants[i].out = at;
    at += bytes[i];
  }
  TRY_STATUS(reader.read(wants, threads));
  return push_memory(pid, pushes);
}

}  // namespace

Status read_into(pid_t pid, CheckpointReader& reader, const std::vector<Want>& wants, int threads) {
  std::vector<Want> plain;
  std::vector<Want> scattered;
  std::vector<uint64_t> bytes;
  uint64_t total = 0;
  const auto flush = [&]() -> Status {
    total = 0;
    return read_together(pid, reader, std::exchange(scattered, {}), std::exchange(bytes, {}),
                         threads);
  };
  for (const Want& want : wants) {
    const auto* tensor = find_tensor(reader.manifest(), want.name);
    if (tensor == nullptr || !is_scattered(tensor->second, want)) {
      plain.push_back(want);
      continue;
    }
    uint64_t size = 0;
    for (const Box& box : want.boxes) {
      size += TRY(element_count(box.shape)) * tensor->second.element_bytes;
    }
    if (total > 0 && total + size > kTogetherBytes) TRY_STATUS(flush());
    scattered.push_back(want);
    bytes.push_back(size);
    total += size;
  }
  TRY_STATUS(flush());
  return reader.read(plain, threads,
                     [pid](const std::vector<Run>& runs) { return push_runs(pid, runs); });
}

}  // namespace shanty::ckpt
