#include "telemetry/ring_reader.h"

#include <atomic>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace shanty {
namespace {

// Writes a ring as a worker does, by the offsets of docs/formats/step-ring.md.
class Worker {
 public:
  explicit Worker(int ring)
      : base_(static_cast<char*>(
            ::mmap(nullptr, kRingBytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0))) {}
  ~Worker() { ::munmap(base_, kRingBytes); }

  void put(size_t at, uint64_t value) {
    std::atomic_ref(*reinterpret_cast<uint64_t*>(base_ + at))
        .store(value, std::memory_order_release);
  }
  uint64_t get(size_t at) const { return *reinterpret_cast<const uint64_t*>(base_ + at); }
  void text(size_t at, const std::string& value) {
    std::memcpy(base_ + at, value.data(), value.size());
  }

  void write(const StepRecord& record) {
    const size_t at = kRingHeaderBytes + 64 * (head_ % kRingCapacity);
    put(at, 2 * head_ + 1);
    std::atomic_thread_fence(std::memory_order_release);
    uint64_t words[7];
    std::memcpy(words, &record, sizeof(record));
    for (size_t i = 0; i < 7; ++i) put(at + 8 * (i + 1), words[i]);
    put(at, 2 * head_ + 2);
    put(384, ++head_);
  }
  void write_step(uint64_t step) {
    StepRecord record;
    record.step = step;
    record.end_unix_ns = static_cast<int64_t>(step * 10);
    write(record);
  }

 private:
  char* base_;
  uint64_t head_ = 0;
};

class RingTest : public ::testing::Test {
 protected:
  Fd ring_ = create_ring(5, 3).value();
  Worker worker_{ring_.get()};
  RingReader reader_ = RingReader::map(ring_.get()).value();

  std::vector<StepRecord> drain() {
    std::vector<StepRecord> out;
    reader_.drain(out);
    return out;
  }
};

TEST_F(RingTest, IsSealedNamedAndHasItsHeader) {
  EXPECT_EQ(::ftruncate(ring_.get(), 0), -1);
  EXPECT_EQ(::ftruncate(ring_.get(), 1 << 24), -1);
  char name[64] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(ring_.get());
  ASSERT_GT(::readlink(link.c_str(), name, sizeof(name) - 1), 0);
  EXPECT_EQ(std::string(name).rfind("/memfd:shanty-ring", 0), 0U);
  EXPECT_EQ(worker_.get(8), 1U | (uint64_t{kRingCapacity} << 32));
  EXPECT_EQ(worker_.get(16), 5U | (uint64_t{3} << 32));
}

TEST_F(RingTest, DrainsWhatIsNew) {
  EXPECT_TRUE(drain().empty());
  worker_.write_step(7);
  worker_.write_step(8);
  const auto records = drain();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[1].step, 8U);
  EXPECT_EQ(records[1].end_unix_ns, 80);
  EXPECT_TRUE(drain().empty());
}

TEST_F(RingTest, ASlowReaderLosesTheOldestAndCountsThem) {
  for (uint64_t step = 0; step < kRingCapacity + 10; ++step) worker_.write_step(step);
  const auto records = drain();
  ASSERT_EQ(records.size(), kRingCapacity);
  EXPECT_EQ(records.front().step, 10U);
  EXPECT_EQ(reader_.missed_records(), 10U);
}

TEST_F(RingTest, ARecordThatStaysTornIsMissed) {
  worker_.write_step(1);
  worker_.write_step(2);
  worker_.put(kRingHeaderBytes, 1);  // record 0 is being written
  const auto records = drain();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].step, 2U);
  EXPECT_EQ(reader_.missed_records(), 1U);
}

TEST_F(RingTest, AHeadThatJumpsAnywhereIsSurvived) {
  worker_.put(384, ~uint64_t{0});
  EXPECT_TRUE(drain().empty());
  worker_.put(384, 0);
  EXPECT_TRUE(drain().empty());
  worker_.write_step(1);
  EXPECT_EQ(drain().size(), 1U);
}

TEST_F(RingTest, ReadsTheHeaderCells) {
  worker_.put(64, 4242);
  worker_.put(72, 5);
  worker_.put(80, 1000);
  worker_.put(88, 1);
  worker_.text(96, "2.15.0");
  worker_.text(128, std::string(32, 'p'));  // no NUL at the end
  worker_.text(160, "no optimizer");
  worker_.put(256, (123 << 4) | 4);
  worker_.put(264, 17);
  worker_.put(328, 2);
  worker_.put(336, 99);
  worker_.put(344, 16);
  worker_.put(352, 1);
  const RingStatus status = reader_.status();
  EXPECT_EQ(status.claim_pid, 4242U);
  EXPECT_EQ(status.hook_bits, 5U);
  EXPECT_EQ(status.total_steps, 1000U);
  EXPECT_EQ(status.first_step_plus_one, 1U);
  EXPECT_EQ(status.torch_version, "2.15.0");
  EXPECT_EQ(status.python_version, std::string(32, 'p'));
  EXPECT_EQ(status.off_reason, "no optimizer");
  EXPECT_EQ(phase_name(status.phase), "backward");
  EXPECT_EQ(status.phase_entered_monotonic_ns, 123);
  EXPECT_EQ(status.phase_step, 17U);
  EXPECT_EQ(status.checkpoints_saved, 2U);
  EXPECT_EQ(status.checkpoint_unix_ns, 99);
  EXPECT_EQ(status.checkpoint_step, 16U);
  EXPECT_EQ(status.checkpoints_loaded, 1U);
  EXPECT_EQ(phase_name(77), "unknown");
}

TEST_F(RingTest, AWorkerThatDiedWithinACheckpointCellStillHasAStatus) {
  worker_.put(320, 1);
  worker_.put(328, 2);
  EXPECT_EQ(reader_.status().checkpoints_saved, 2U);
}

TEST_F(RingTest, CommandsAnExit) {
  reader_.command_exit(3);
  EXPECT_EQ(worker_.get(24), 0x301U);
}

TEST_F(RingTest, EveryRecordReadWhileOthersAreWrittenIsWhole) {
  constexpr uint64_t kSteps = 200'000;
  std::thread writer([this] {
    for (uint64_t step = 0; step < kSteps; ++step) worker_.write_step(step);
  });
  uint64_t read = 0;
  uint64_t next = 0;
  while (read + reader_.missed_records() < kSteps) {
    for (const StepRecord& record : drain()) {
      ASSERT_EQ(record.end_unix_ns, static_cast<int64_t>(record.step * 10));
      ASSERT_GE(record.step, next);
      next = record.step + 1;
      ++read;
    }
  }
  writer.join();
  EXPECT_GT(read, 0U);
}

TEST(Ring, OtherDescriptorsAreRefused) {
  Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(RingReader::map(null.get()).ok());
  Fd blank(::memfd_create("x", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(blank.get(), static_cast<off_t>(kRingBytes)), 0);
  EXPECT_FALSE(RingReader::map(blank.get()).ok());
}

}  // namespace
}  // namespace shanty
