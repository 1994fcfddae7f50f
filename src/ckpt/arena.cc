#include "ckpt/arena.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/units.h"

namespace shanty::ckpt {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kMagic = 0x31305450'4B434853;  // "SHCKPT01"
constexpr size_t kMagicWord = 0;
constexpr size_t kStepWord = 1;
constexpr size_t kStateWord = 2;
constexpr size_t kLayoutWord = 3;
constexpr uint64_t kMaxSlotBytes = uint64_t{1} << 44;
constexpr uint64_t kPopulateBytes = uint64_t{64} << 20;

}  // namespace

Result<std::shared_ptr<Arena>> Arena::create(uint64_t slot_bytes, uint64_t layout) {
  if (slot_bytes > kMaxSlotBytes) {
    return Error{fmt::format("making the memory for a checkpoint: {} is too much",
                             format_bytes(slot_bytes))};
  }
  slot_bytes = (slot_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  const uint64_t bytes = kSlots * (kPageBytes + slot_bytes);
  MemoryPromise promise = TRY(
      MemoryPromise::make(bytes, fmt::format("making the memory for {} copies of this rank's {}",
                                             kSlots, format_bytes(slot_bytes))));
  Fd fd(::memfd_create("shanty-checkpoint", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return errno_error("making the memory for a checkpoint (memfd_create)");
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return errno_error("sizing the memory for a checkpoint");
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return errno_error("sealing the memory for a checkpoint");
  }
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) return errno_error("mapping the memory for a checkpoint");
  std::shared_ptr<Arena> arena(
      new Arena(std::move(fd), static_cast<char*>(base), slot_bytes, std::move(promise)));
  for (int i = 0; i < kSlots; ++i) {
    arena->word(i, kMagicWord).store(kMagic);
    arena->word(i, kLayoutWord).store(layout);
  }
  return arena;
}

Arena::Arena(Fd fd, char* base, uint64_t slot_bytes, MemoryPromise promise)
    : fd_(std::move(fd)), base_(base), slot_bytes_(slot_bytes), promise_(std::move(promise)) {
  populating_ = std::thread([this] { populate(); });
}

Arena::~Arena() {
  stopping_ = true;
  populating_.join();
  ::munmap(base_, kSlots * (kPageBytes + slot_bytes_));
}

// Slot 0 first: it is the first to be used.
void Arena::populate() {
  const uint64_t end = kSlots * slot_bytes_;
  for (uint64_t at = 0; at < end && !stopping_; at += kPopulateBytes) {
    const uint64_t bytes = std::min(kPopulateBytes, end - at);
    ::madvise(base_ + kSlots * kPageBytes + at, bytes, MADV_POPULATE_WRITE);
    promise_.use(bytes);
  }
}

char* Arena::slot(int index) const {
  return base_ + kSlots * kPageBytes + static_cast<uint64_t>(index) * slot_bytes_;
}

std::atomic_ref<uint64_t> Arena::word(int index, size_t word) const {
  char* page = base_ + static_cast<uint64_t>(index) * kPageBytes;
  return std::atomic_ref<uint64_t>(reinterpret_cast<uint64_t*>(page)[word]);
}

void Arena::set_step(int index, uint64_t step) { word(index, kStepWord).store(step); }

void Arena::set_state(int index, SlotState state) {
  word(index, kStateWord).store(static_cast<uint64_t>(state));
}

SlotState Arena::state(int index) const {
  const uint64_t value = word(index, kStateWord).load();
  return value <= 5 ? static_cast<SlotState>(value) : SlotState::kFailed;
}

}  // namespace shanty::ckpt
