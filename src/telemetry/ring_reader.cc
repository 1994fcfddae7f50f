#include "telemetry/ring_reader.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/believable_time.h"

namespace shanty {
namespace {

constexpr std::string_view kMagic = "SHRING01";
constexpr uint32_t kVersion = 1;
constexpr size_t kRecordBytes = 64;
constexpr int kTornRetries = 4;

// Offsets of docs/formats/step-ring.md.
constexpr size_t kVersionAt = 8;
constexpr size_t kCapacityAt = 12;
constexpr size_t kRankAt = 16;
constexpr size_t kGenerationAt = 20;
constexpr size_t kCommandAt = 24;
constexpr size_t kClaimPidAt = 64;
constexpr size_t kHookBitsAt = 72;
constexpr size_t kTotalStepsAt = 80;
constexpr size_t kFirstStepAt = 88;
constexpr size_t kTorchVersionAt = 96;
constexpr size_t kPythonVersionAt = 128;
constexpr size_t kVersionTextBytes = 32;
constexpr size_t kOffReasonAt = 160;
constexpr size_t kOffReasonBytes = 96;
constexpr size_t kPhaseAt = 256;
constexpr int kPhaseBits = 4;
constexpr size_t kPhaseStepAt = 264;
constexpr size_t kCheckpointSequenceAt = 320;
constexpr size_t kCheckpointWords = 4;
constexpr size_t kHeadAt = 384;

constexpr std::array<std::string_view, 11> kPhaseNames = {
    "unknown",    "start",      "data", "forward", "backward", "optimizer",
    "collective", "checkpoint", "eval", "other",   "done"};

uint64_t load(const std::byte* at, std::memory_order order = std::memory_order_relaxed) {
  // The other side is a process, so the words are reached through the mapping, not as objects.
  const auto* word = reinterpret_cast<const uint64_t*>(at);
  return std::atomic_ref<uint64_t>(*const_cast<uint64_t*>(word)).load(order);
}

// The words behind a seqlock's sequence word. When the writer is always in the middle, or died
// there, what was last copied is as good as can be had.
template <size_t kWords>
std::array<uint64_t, kWords> load_seqlocked(const std::byte* sequence) {
  std::array<uint64_t, kWords> words{};
  for (int attempt = 0; attempt < kTornRetries; ++attempt) {
    const uint64_t before = load(sequence, std::memory_order_acquire);
    for (size_t i = 0; i < kWords; ++i) words[i] = load(sequence + 8 * (i + 1));
    std::atomic_thread_fence(std::memory_order_acquire);
    if (before % 2 == 0 && load(sequence) == before) break;
  }
  return words;
}

std::string load_text(const std::byte* at, size_t size) {
  std::string text(size, '\0');
  std::memcpy(text.data(), at, size);
  return text.substr(0, text.find('\0'));
}

template <typename T>
void store(std::string& page, size_t at, T value) {
  std::memcpy(page.data() + at, &value, sizeof(value));
}

}  // namespace

Result<Fd> create_ring(int rank, uint64_t generation) {
  Fd fd(::memfd_create("shanty-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return errno_error("creating the step ring (memfd_create)");
  if (::ftruncate(fd.get(), static_cast<off_t>(kRingBytes)) != 0) {
    return errno_error("sizing the step ring");
  }
  std::string header(kMagic);
  header.resize(kCommandAt, '\0');
  store(header, kVersionAt, kVersion);
  store(header, kCapacityAt, kRingCapacity);
  store(header, kRankAt, static_cast<uint32_t>(rank));
  store(header, kGenerationAt, static_cast<uint32_t>(generation));
  if (::pwrite(fd.get(), header.data(), header.size(), 0) != static_cast<ssize_t>(header.size())) {
    return errno_error("writing the step ring's header");
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return errno_error("sealing the step ring");
  }
  return fd;
}

std::string_view phase_name(uint64_t phase) {
  return phase < kPhaseNames.size() ? kPhaseNames[phase] : kPhaseNames[0];
}

Result<RingReader> RingReader::map(int ring) {
  struct stat st{};
  if (::fstat(ring, &st) != 0) return errno_error("stat of the step ring");
  if (static_cast<uint64_t>(st.st_size) != kRingBytes) {
    return Error{"mapping the step ring: its size is not that of a ring"};
  }
  void* base = ::mmap(nullptr, kRingBytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0);
  if (base == MAP_FAILED) return errno_error("mapping the step ring");
  RingReader reader(static_cast<std::byte*>(base));
  if (std::memcmp(base, kMagic.data(), kMagic.size()) != 0) {
    return Error{"mapping the step ring: its magic is wrong"};
  }
  return reader;
}

RingReader::RingReader(RingReader&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), next_(other.next_), missed_(other.missed_) {}

RingReader& RingReader::operator=(RingReader&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(next_, other.next_);
  std::swap(missed_, other.missed_);
  return *this;
}

RingReader::~RingReader() {
  if (base_ != nullptr) ::munmap(base_, kRingBytes);
}

bool RingReader::read_record(uint64_t index, StepRecord& out) const {
  const std::byte* at = base_ + kRingHeaderBytes + kRecordBytes * (index % kRingCapacity);
  const uint64_t stable = 2 * (index + 1);
  for (int attempt = 0; attempt < kTornRetries; ++attempt) {
    if (load(at, std::memory_order_acquire) != stable) continue;
    std::array<uint64_t, sizeof(StepRecord) / 8> words{};
    for (size_t i = 0; i < words.size(); ++i) words[i] = load(at + 8 * (i + 1));
    std::atomic_thread_fence(std::memory_order_acquire);
    if (load(at) != stable) continue;
    out = std::bit_cast<StepRecord>(words);
    out.end_unix_ns = believable_unix_ns(out.end_unix_ns);
    return true;
  }
  return false;
}

void RingReader::drain(std::vector<StepRecord>& out) {
  const uint64_t head = load(base_ + kHeadAt, std::memory_order_acquire);
  if (head <= next_) {
    next_ = head;  // only a worker that scribbles goes back
    return;
  }
  if (head - next_ > kRingCapacity) {
    missed_ += head - next_ - kRingCapacity;
    next_ = head - kRingCapacity;
  }
  for (; next_ < head; ++next_) {
    StepRecord record;
    if (read_record(next_, record)) {
      out.push_back(record);
    } else {
      ++missed_;
    }
  }
}

RingStatus RingReader::status() const {
  RingStatus status;
  status.claim_pid = claim_pid();
  status.hook_bits = load(base_ + kHookBitsAt);
  status.total_steps = load(base_ + kTotalStepsAt);
  status.first_step_plus_one = load(base_ + kFirstStepAt);
  status.torch_version = load_text(base_ + kTorchVersionAt, kVersionTextBytes);
  status.python_version = load_text(base_ + kPythonVersionAt, kVersionTextBytes);
  status.off_reason = load_text(base_ + kOffReasonAt, kOffReasonBytes);
  const uint64_t phase = load(base_ + kPhaseAt);
  status.phase = phase & ((1U << kPhaseBits) - 1);
  status.phase_entered_monotonic_ns = static_cast<int64_t>(phase >> kPhaseBits);
  status.phase_step = load(base_ + kPhaseStepAt);
  const auto checkpoint = load_seqlocked<kCheckpointWords>(base_ + kCheckpointSequenceAt);
  status.checkpoints_saved = checkpoint[0];
  status.checkpoint_unix_ns = believable_unix_ns(static_cast<int64_t>(checkpoint[1]));
  status.checkpoint_step = checkpoint[2];
  status.checkpoints_loaded = checkpoint[3];
  return status;
}

uint64_t RingReader::claim_pid() const { return load(base_ + kClaimPidAt); }

void RingReader::command_exit(uint8_t code) {
  auto* word = reinterpret_cast<uint64_t*>(base_ + kCommandAt);
  std::atomic_ref<uint64_t>(*word).store(uint64_t{1} | (uint64_t{code} << 8),
                                         std::memory_order_release);
}

}  // namespace shanty
