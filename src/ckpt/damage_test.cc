// Damage of every kind in every class of byte of a real checkpoint in a real directory.

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/random.h"
#include "ckpt/model_vfs.h"
#include "ckpt/open_checkpoint.h"
#include "ckpt/store_files.h"
#include "ckpt/test_saves.h"
#include "os/files.h"

namespace shanty::ckpt {
namespace {

using testing::HasSubstr;

constexpr uint64_t kScale = 100'000;  // 9.6 MB of weight in two files, several chunks each
const std::string kShard = "model/shard-00001-model-00001-of-00001.safetensors";

class DamageTest : public testing::Test {
 protected:
  DamageTest()
      : root_(std::filesystem::temp_directory_path() /
              ("shanty-damage-" + hex(secure_random_bytes(6)))) {
    const Fence fence = open_root(posix_vfs(), root_, "run", 1).value();
    for (uint64_t step = 1; step <= 2; ++step) {
      const auto saved = run_save(posix_vfs(), fence, {.step = step, .generation = 1},
                                  {.salt = step, .scale = kScale});
      EXPECT_TRUE(saved.ok()) << saved.error().message;
      newest_ = saved->directory;
    }
  }
  ~DamageTest() override { std::filesystem::remove_all(root_); }

  std::string path(const std::string& file) const { return newest_ + "/" + file; }
  std::string read(const std::string& file) const {
    return shanty::read_file(path(file), size_t{1} << 30).value();
  }
  void write(const std::string& file, const std::string& text) const {
    std::ofstream out(path(file), std::ios::binary | std::ios::trunc);
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    ASSERT_TRUE(out.good());
  }

  // The damage is noticed by a load, which takes the older one and says `file` and `words`, and by
  // a verification. Then the file is put back.
  void expect_noticed(const std::string& file, const std::string& words,
                      const std::function<void(std::string&)>& damage) {
    const std::string good = read(file);
    std::string bad = good;
    damage(bad);
    write(file, bad);
    check(file, words);
    write(file, good);
    const auto loaded = load_newest(posix_vfs(), root_, kScale);
    EXPECT_EQ(loaded->salt, 2U);
  }

  void check(const std::string& file, const std::string& words) {
    const auto loaded = load_newest(posix_vfs(), root_, kScale);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    EXPECT_EQ(loaded->salt, 1U) << file << " " << words;
    ASSERT_EQ(loaded->skipped.size(), 1U);
    EXPECT_EQ(loaded->skipped[0].first, newest_);
    EXPECT_THAT(loaded->skipped[0].second, HasSubstr(file));
    EXPECT_THAT(loaded->skipped[0].second, HasSubstr(words));
    const std::vector<Damage> damage = verify_checkpoint(posix_vfs(), newest_, 2);
    ASSERT_GE(damage.size(), 1U);
    EXPECT_THAT(describe(damage[0]), HasSubstr(file));
  }

  std::function<void(std::string&)> flip(size_t byte) {
    return [byte](std::string& text) { text[byte] = static_cast<char>(text[byte] ^ 0x10); };
  }

  std::string root_;
  std::string newest_;
};

TEST_F(DamageTest, AFlippedBitIsNoticedWhereverItIs) {
  const std::string shard = read(kShard);
  uint64_t header = 0;
  std::memcpy(&header, shard.data(), sizeof(header));
  const uint64_t last = (shard.size() - 1) / kChunkBytes;
  ASSERT_GE(last, 4U);
  expect_noticed(kShard, "chunk 0: checksum", flip(1));               // header's length
  expect_noticed(kShard, "chunk 0: checksum", flip(20));              // header
  expect_noticed(kShard, "chunk 0: checksum", flip(8 + header - 1));  // its padding
  expect_noticed(kShard, "chunk 0: checksum", flip(8 + header));      // first data
  expect_noticed(kShard, "chunk 1: checksum", flip(kChunkBytes));
  expect_noticed(kShard, "chunk 2: checksum", flip(3 * kChunkBytes - 1));
  expect_noticed(kShard, fmt::format("chunk {}: checksum", last), flip(shard.size() - 1));
  expect_noticed("optim/shard-00002-model-00001-of-00001.safetensors", "chunk 3: checksum",
                 flip(3 * kChunkBytes + 77));
  expect_noticed("state/rank-00001.json", "chunk 0: checksum", flip(3));
}

TEST_F(DamageTest, AFlippedBitInTheManifestIsNoticed) {
  const std::string manifest = read("MANIFEST.json");
  const size_t line = manifest.find('\n');
  for (const char* part : {"\"format\"", "\"step\"", "\"body_bytes\"", "\"body_sha256\":\"",
                           "\"crc\":\"", "\"bytes\""}) {
    const size_t at = manifest.find(part) + std::strlen(part) + 1;
    expect_noticed("MANIFEST.json", "first line", flip(at));
  }
  expect_noticed("MANIFEST.json", "MANIFEST.json", flip(line));
  expect_noticed("MANIFEST.json", "second line", flip(line + 1));
  expect_noticed("MANIFEST.json", "second line", flip(manifest.find("\"crc32c\"") + 12));
  expect_noticed("MANIFEST.json", "second line", flip(manifest.find("\"xxh3\"") + 9));
  expect_noticed("MANIFEST.json", "second line", flip(manifest.find("\"pieces\"") + 12));
  expect_noticed("MANIFEST.json", "second line", flip(manifest.size() - 1));
}

// All of a small checkpoint, so that no class of bytes is forgotten.
TEST(DamageOfEveryByte, IsNoticedByALoadAndByAVerification) {
  const std::string root = "/root";
  ModelVfs vfs;
  const Fence fence = open_root(vfs, root, "run", 1).value();
  std::string newest;
  for (uint64_t step = 1; step <= 2; ++step) {
    const auto saved = run_save(vfs, fence, {.step = step, .generation = 1}, {.salt = step});
    ASSERT_TRUE(saved.ok()) << saved.error().message;
    newest = saved->directory;
  }
  std::vector<std::string> files = {"MANIFEST.json"};
  {
    const auto reader = open_checkpoint(vfs, newest).value();
    for (const StoredFile& file : reader->manifest().files) files.push_back(file.path);
  }
  size_t flipped = 0;
  for (const std::string& name : files) {
    const std::string path = newest + "/" + name;
    const std::string content = read_front(vfs, path, size_t{1} << 20).value();
    const auto file = vfs.open(path, {.write = true}).value();
    for (size_t at = 0; at < content.size() && !HasFailure(); ++at) {
      if (content[at] == ' ' && at % 16 != 0) continue;  // padding, of which some will do
      ++flipped;
      const auto bad = static_cast<char>(content[at] ^ (1 << (at % 8)));
      ASSERT_TRUE(file->write_at(at, {&bad, 1}).ok());
      const auto loaded = load_newest(vfs, root);
      ASSERT_TRUE(loaded.ok()) << name << " " << at << ": " << loaded.error().message;
      EXPECT_EQ(loaded->salt, 1U) << name << " " << at;
      ASSERT_EQ(loaded->skipped.size(), 1U) << name << " " << at;
      EXPECT_THAT(loaded->skipped[0].second, HasSubstr(name)) << at;
      if (at % 8 == 0) {
        EXPECT_FALSE(verify_checkpoint(vfs, newest, 1).empty()) << name << " " << at;
      }
      ASSERT_TRUE(file->write_at(at, {&content[at], 1}).ok());
    }
  }
  EXPECT_GT(flipped, 3'000U);
  EXPECT_EQ(load_newest(vfs, root)->salt, 2U);
}

// What is no checkpoint's content: a hint, a mark, and who holds the directory.
TEST_F(DamageTest, WhatIsBesideTheCheckpointsMayBeAnything) {
  ASSERT_TRUE(pin(posix_vfs(), newest_, "best").ok());
  for (const std::string& file : {root_ + "/GENERATION", newest_ + "/PINNED"}) {
    for (const std::string& content : {std::string(), std::string(100, '\xff')}) {
      ASSERT_TRUE(replace_file(file, content).ok());
      EXPECT_EQ(load_newest(posix_vfs(), root_, kScale)->salt, 2U) << file;
    }
  }
  ASSERT_TRUE(posix_vfs().replace_link(root_ + "/latest", "nowhere").ok());
  EXPECT_EQ(load_newest(posix_vfs(), root_, kScale)->salt, 2U);
  const Fence fence = open_root(posix_vfs(), root_, "run", 2).value();
  EXPECT_EQ(std::filesystem::read_symlink(root_ + "/latest"),
            std::filesystem::path(newest_).filename());
  const auto saved =
      run_save(posix_vfs(), fence, {.step = 3, .generation = 2}, {.salt = 3, .scale = kScale});
  ASSERT_TRUE(saved.ok()) << saved.error().message;
  EXPECT_EQ(load_newest(posix_vfs(), root_, kScale)->salt, 3U);
}

TEST_F(DamageTest, AFileThatIsCutEmptiedOrLongerIsNoticed) {
  const std::vector<std::string> files = {kShard, "state/rank-00000.json"};
  for (const std::string& file : files) {
    expect_noticed(file, "1 bytes short", [](std::string& text) { text.pop_back(); });
    expect_noticed(file, "bytes short", [](std::string& text) { text.clear(); });
    expect_noticed(file, "1 bytes too long", [](std::string& text) { text += '\0'; });
  }
  expect_noticed("MANIFEST.json", "not as long", [](std::string& text) { text.pop_back(); });
  expect_noticed("MANIFEST.json", "not as long", [](std::string& text) { text += '\n'; });
  expect_noticed("MANIFEST.json", "first line", [](std::string& text) { text.resize(100); });
  expect_noticed("MANIFEST.json", "first line", [](std::string& text) { text.clear(); });
}

TEST_F(DamageTest, RightSizeAndZeroContentIsNoticed) {
  expect_noticed(kShard, "chunk 0: checksum",
                 [](std::string& text) { std::fill(text.begin(), text.end(), '\0'); });
}

TEST_F(DamageTest, AMissingFileIsNoticed) {
  const std::string optim = "optim/shard-00001-model-00001-of-00001.safetensors";
  for (const std::string& file :
       {kShard, optim, std::string("state/rank-00001.json"), std::string("MANIFEST.json")}) {
    std::filesystem::rename(path(file), root_ + "/aside");
    check(file, "is missing");
    std::filesystem::rename(root_ + "/aside", path(file));
  }
}

TEST_F(DamageTest, AFileThatTookAnothersPlaceIsNoticed) {
  const std::string other = "model/shard-00002-model-00001-of-00001.safetensors";
  const std::string content = read(other);
  expect_noticed(kShard, kShard, [&](std::string& text) { text = content; });
}

TEST_F(DamageTest, TheManifestOfAnotherCheckpointIsNoticed) {
  std::filesystem::copy_file(root_ + "/step-000000001.g0001.a01/MANIFEST.json",
                             path("MANIFEST.json"),
                             std::filesystem::copy_options::overwrite_existing);
  check("MANIFEST.json", "another checkpoint");
}

TEST_F(DamageTest, VerifyNamesEveryDamagedChunk) {
  std::string text = read(kShard);
  flip(10)(text);
  flip(2 * kChunkBytes + 9)(text);
  write(kShard, text);
  const std::vector<Damage> damage = verify_checkpoint(posix_vfs(), newest_, 1);
  ASSERT_EQ(damage.size(), 2U);
  EXPECT_EQ(describe(damage[0]), kShard + ", chunk 0: checksum does not match");
  EXPECT_EQ(damage[1].chunk, 2U);
}

}  // namespace
}  // namespace shanty::ckpt
