#include "ckpt/reader.h"

#include <ctime>
#include <filesystem>

#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/random.h"
#include "ckpt/piece_index.h"
#include "ckpt/read_into.h"
#include "ckpt/test_saves.h"

namespace shanty::ckpt {
namespace {

using testing::HasSubstr;

// A directory of its own that goes with the test.
class ReaderTest : public testing::Test {
 protected:
  ReaderTest()
      : root_(std::filesystem::temp_directory_path() /
              ("shanty-reader-" + hex(secure_random_bytes(6)))) {}
  ~ReaderTest() override { std::filesystem::remove_all(root_); }

  std::string save(uint64_t step, const TestSave& what) {
    const Fence fence = open_root(posix_vfs(), root_, "run", 1).value();
    const auto saved = run_save(posix_vfs(), fence, {.step = step, .generation = 1}, what);
    EXPECT_TRUE(saved.ok()) << saved.error().message;
    EXPECT_EQ(saved->note, "");
    return saved->directory;
  }

  std::string root_;
};

TEST_F(ReaderTest, ReadsWhatWasSavedByAnyNumberOfRanksWithAnyNumberOfThreads) {
  for (int world = 1; world <= 4; ++world) {
    const auto step = static_cast<uint64_t>(world);
    const std::string directory = save(step, {.salt = step, .world = world, .scale = 20'000});
    const auto reader = open_checkpoint(posix_vfs(), directory);
    ASSERT_TRUE(reader.ok()) << reader.error().message;
    const auto salt = check_content(**reader, 20'000, world);
    EXPECT_TRUE(salt.ok()) << salt.error().message;
    EXPECT_TRUE(check_content(**reader, 20'000, world).ok());  // from checked chunks
    EXPECT_TRUE(verify_checkpoint(posix_vfs(), directory, 2).empty());
  }
  EXPECT_EQ(std::filesystem::read_symlink(root_ + "/latest"), "step-000000004.g0001.a01");
}

TEST_F(ReaderTest, ReadsAnyBoxes) {
  const std::string directory = save(1, {.salt = 1, .world = 3, .scale = 500});
  const auto reader = open_checkpoint(posix_vfs(), directory).value();
  Rng rng(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<Want> wants;
    std::vector<std::string> expected;
    std::vector<std::string> got;
    for (const TestTensor& tensor : test_tensors(500)) {
      Want want{.name = tensor.name, .boxes = {}};
      std::string& bytes = expected.emplace_back();
      for (int i = 0; i < 3; ++i) {
        Box box;
        for (const uint64_t extent : tensor.shape) {
          box.offsets.push_back(rng.below(extent + 1));
          box.shape.push_back(std::min(rng.below(extent - box.offsets.back() + 1), uint64_t{40}));
        }
        bytes += cut_out(test_bytes(tensor, 1), tensor, box);
        want.boxes.push_back(box);
      }
      wants.push_back(want);
    }
    for (const std::string& bytes : expected) got.emplace_back(bytes.size(), '\x55');
    for (size_t i = 0; i < wants.size(); ++i) wants[i].out = got[i].data();
    const Status read = reader->read(wants, 2);
    ASSERT_TRUE(read.ok()) << read.error().message;
    ASSERT_EQ(got, expected) << "round " << round;
    for (std::string& bytes : got) bytes.assign(bytes.size(), '\x55');
    const Status pushed = read_into(::getpid(), *reader, wants, 2);
    ASSERT_TRUE(pushed.ok()) << pushed.error().message;
    ASSERT_EQ(got, expected) << "round " << round << ", by the kernel";
  }
}

TEST_F(ReaderTest, MemoryThatCannotBeWrittenIsNoDamage) {
  const auto reader = open_checkpoint(posix_vfs(), save(1, {})).value();
  void* hole = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const Want want{"layer.weight", {{{0, 0}, {6, 4}}}, static_cast<char*>(hole)};
  const Status read = read_into(::getpid(), *reader, {want}, 1);
  EXPECT_THAT(read.error().message, HasSubstr("process_vm_writev"));
  EXPECT_TRUE(reader->damage().empty());
  ::munmap(hole, 4096);
}

TEST_F(ReaderTest, RefusesWhatIsNotThere) {
  const auto reader = open_checkpoint(posix_vfs(), save(1, {})).value();
  char out[1024];
  const Status missing = reader->read({{"no", {}, out}}, 1);
  EXPECT_THAT(missing.error().message, HasSubstr("there is no tensor \"no\""));
  const Status outside = reader->read({{"tied", {{{5, 0}, {2, 4}}}, out}}, 1);
  EXPECT_THAT(outside.error().message, HasSubstr("reaches out"));
  EXPECT_THAT(reader->read_file("state/rank-00009.json").error().message,
              HasSubstr("no such file"));
  EXPECT_TRUE(reader->damage().empty());
}

TEST_F(ReaderTest, ADirectoryThatBecomesVisibleMeanwhileIsReadOn) {
  const std::string visible = save(1, {});
  const std::string hidden = root_ + "/.inprogress-step-000000001.g0001.a01";
  std::filesystem::rename(visible, hidden);
  const auto reader = open_checkpoint(posix_vfs(), hidden).value();
  std::filesystem::rename(hidden, visible);
  EXPECT_TRUE(check_content(*reader, 1).ok());
}

TEST_F(ReaderTest, FinishesACommitThatACrashCutShort) {
  const std::string visible = save(1, {});
  std::filesystem::rename(visible, root_ + "/.inprogress-step-000000001.g0001.a01");
  std::filesystem::remove(root_ + "/latest");
  std::filesystem::create_directories(root_ + "/.inprogress-step-000000002.g0001.a01/model");
  std::filesystem::create_directories(root_ + "/.trash/old/model");
  EXPECT_EQ(load_newest(posix_vfs(), root_)->salt, 1U);
  ASSERT_TRUE(open_root(posix_vfs(), root_, "run", 1).ok());
  EXPECT_TRUE(std::filesystem::exists(visible + "/MANIFEST.json"));
  EXPECT_TRUE(std::filesystem::exists(root_ + "/latest/MANIFEST.json"));
  EXPECT_FALSE(std::filesystem::exists(root_ + "/.inprogress-step-000000002.g0001.a01"));
  EXPECT_TRUE(std::filesystem::is_empty(root_ + "/.trash"));
}

TEST_F(ReaderTest, OpensTheNewestUpToAStepAndPassesOverTheAvoided) {
  for (uint64_t step = 1; step <= 3; ++step) save(step, {.salt = step});
  std::vector<std::pair<std::string, std::string>> skipped;
  const auto newest = [&](std::optional<uint64_t> step, const std::set<std::string>& avoid) {
    const auto reader = open_newest(posix_vfs(), root_, step, skipped, avoid).value();
    return reader == nullptr ? 0 : reader->manifest().id.step;
  };
  EXPECT_EQ(newest(std::nullopt, {}), 3U);
  EXPECT_EQ(newest(2, {}), 2U);
  EXPECT_EQ(newest(std::nullopt, {root_ + "/step-000000003.g0001.a01"}), 2U);
  EXPECT_EQ(newest(0, {}), 0U);
  EXPECT_TRUE(skipped.empty());
  EXPECT_EQ(open_newest(posix_vfs(), root_ + "/none", {}, skipped).value(), nullptr);
}

TEST_F(ReaderTest, PruneKeepsTheNewestThePinnedAndTheLastWholeOne) {
  std::vector<std::string> directories;
  for (uint64_t step = 1; step <= 6; ++step) directories.push_back(save(step, {.salt = step}));
  ASSERT_TRUE(pin(posix_vfs(), directories[1], "best so far").ok());
  ASSERT_TRUE(pin(posix_vfs(), directories[1], "again").ok());
  // The two newest are damaged: only what is older than the third may go.
  for (const size_t i : {4, 5}) {
    std::filesystem::resize_file(directories[i] + "/state/rank-00000.json", 1);
  }
  const auto verified = [](const Listed& listed) {
    return verify_checkpoint(posix_vfs(), listed.directory, 1).empty();
  };
  PruneOptions options{.keep = 1, .dry_run = true, .is_whole = verified};
  EXPECT_EQ(prune(posix_vfs(), root_, options)->size(), 2U);
  EXPECT_EQ(list_checkpoints(posix_vfs(), root_)->size(), 6U);
  options.dry_run = false;
  const auto gone = prune(posix_vfs(), root_, options).value();
  ASSERT_EQ(gone.size(), 2U);
  EXPECT_EQ(gone[0].directory, directories[2]);
  EXPECT_EQ(gone[1].directory, directories[0]);
  EXPECT_FALSE(std::filesystem::exists(directories[0]));
  EXPECT_TRUE(std::filesystem::is_empty(root_ + "/.trash"));
  EXPECT_EQ(list_checkpoints(posix_vfs(), root_)->size(), 4U);
  options.is_whole = [](const Listed&) { return false; };
  EXPECT_TRUE(prune(posix_vfs(), root_, options)->empty());
}

TEST(PieceIndex, AHundredThousandPiecesAreNotTriedForEachWant) {
  StoredTensor tensor{.dtype = "F32", .element_bytes = 4, .shape = {1'000'000, 3}};
  for (uint64_t i = 0; i < 100'000; ++i) {
    const uint64_t place = i * 7919 % 100'000;  // in no order
    tensor.pieces.push_back({.file = 0, .at = i * 120, .box = {{place * 10, 0}, {10, 3}}});
  }
  const std::clock_t start = std::clock();
  const PieceIndex index(tensor);
  size_t found = 0;
  for (uint64_t i = 0; i + 15 <= 1'000'000; i += 10) {
    found += index.find({{i + 5, 1}, {10, 1}}).size();
  }
  const double took_s = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_EQ(found, 2 * 99'999U);
  EXPECT_LT(took_s, 2.0);
  std::printf("index and 100,000 searches: %.0f ms\n", took_s * 1000);
}

TEST_F(ReaderTest, AThousandCheckpointsAreListedQuickly) {
  const std::string first = save(1, {});
  for (uint64_t step = 2; step <= 1000; ++step) {
    const CheckpointId id{.step = step, .generation = 1};
    std::filesystem::create_directory(root_ + "/" + visible_name(id));
    std::filesystem::copy_file(first + "/MANIFEST.json",
                               root_ + "/" + visible_name(id) + "/MANIFEST.json");
  }
  const std::clock_t start = std::clock();
  const auto listed = list_checkpoints(posix_vfs(), root_).value();
  const double took_s = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  ASSERT_EQ(listed.size(), 1000U);
  EXPECT_EQ(listed[0].problem, "MANIFEST.json is that of another checkpoint");
  EXPECT_EQ(listed[999].state, CheckpointState::kCommitted);
  std::printf("a thousand checkpoints: %.0f ms\n", took_s * 1000);
  EXPECT_LT(took_s, 2.0);
}

}  // namespace
}  // namespace shanty::ckpt
