#include "telemetry/saved_files.h"

#include <cstdio>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "os/files.h"

namespace shanty {
namespace {

using ::testing::HasSubstr;

class SavedFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/shanty-saves-XXXXXX";
    directory_ = ::mkdtemp(pattern);
    run_.emplace(*RunDir::create(directory_ + "/run", {.run_id = "one"}));
  }
  void TearDown() override { EXPECT_TRUE(remove_tree(directory_).ok()); }

  std::string put(const std::string& name, const std::string& content) {
    const std::string path = directory_ + "/" + name;
    EXPECT_TRUE(make_directories(path.substr(0, path.rfind('/'))).ok());
    EXPECT_TRUE(replace_file(path, content).ok());
    return path;
  }

  // An archive without members: an end record of 22 bytes is all of its tail.
  static std::string zip(const std::string& content) {
    std::string bytes = "PK\x03\x04" + content;
    std::string end("PK\x05\x06", 4);
    end.resize(22, '\0');
    const auto start = static_cast<uint32_t>(bytes.size());
    for (size_t i = 0; i < 4; ++i) end[16 + i] = static_cast<char>((start >> (8 * i)) & 0xFF);
    return bytes + end;
  }

  SavedFile check(const std::string& path) {
    SavedFile saved{.path = path};
    check_saved_file(saved);
    return saved;
  }

  void tell(const std::string& path, uint64_t step, uint64_t inode = 0) {
    told_ += fmt::format(R"({{"path":"{}","step":{},"unix_ns":{},"inode":{}}})"
                         "\n",
                         path, step, 1'700'000'000'000'000'000 + step, inode);
    put("run/saves/rank-00000.jsonl", told_);
  }

  void tell_committed(const std::string& name, uint64_t step) {
    committed_ += fmt::format(R"({{"path":"{}/{}","step":{},"unix_ns":{},"by":"shanty"}})"
                              "\n",
                              directory_, name, step, 1'700'000'000'000'000'000 + step);
    put("run/saves/checkpointer.jsonl", committed_);
  }

  std::string directory_;
  std::string committed_;
  std::optional<RunDir> run_;
  std::string told_;
};

TEST_F(SavedFilesTest, AFileOfTorchIsWholeWhenItsEndIs) {
  const std::string whole = zip(std::string(200'000, 'x'));
  EXPECT_EQ(check(put("a.pt", whole)).state, SavedState::kWhole);
  for (const size_t size : {size_t{0}, size_t{5}, whole.size() / 2, whole.size() - 1}) {
    EXPECT_EQ(check(put("a.pt", whole.substr(0, size))).state, SavedState::kDamaged) << size;
  }
  EXPECT_EQ(check(put("old.pt", "\x80\x02pickle")).state, SavedState::kUnknown);
  EXPECT_EQ(check(directory_ + "/none.pt").state, SavedState::kMissing);
}

TEST_F(SavedFilesTest, ADirectoryOfDcpNeedsItsMetadataAndData) {
  put("dcp/__0_0.distcp", "data");
  EXPECT_THAT(check(directory_ + "/dcp").problem, HasSubstr(".metadata is missing"));
  put("dcp/.metadata", "meta");
  EXPECT_EQ(check(directory_ + "/dcp").state, SavedState::kWhole);
  put("dcp/__1_0.distcp", "");
  EXPECT_THAT(check(directory_ + "/dcp").problem, HasSubstr("1 of its data files are empty"));
}

TEST_F(SavedFilesTest, NewestFirstAndARenamedOneIsFollowed) {
  const std::string first = put("first.pt", zip("a"));
  const std::string temporary = put("second.pt.tmp", zip("b"));
  struct stat st{};
  ASSERT_EQ(::stat(temporary.c_str(), &st), 0);
  tell(first, 10);
  tell(temporary, 20, st.st_ino);
  ASSERT_EQ(std::rename(temporary.c_str(), (directory_ + "/second.pt").c_str()), 0);
  const auto saved = read_saved_files(*run_);
  ASSERT_EQ(saved.size(), 2U);
  EXPECT_EQ(saved[0].path, directory_ + "/second.pt");
  EXPECT_EQ(saved[0].step, 20U);
  EXPECT_EQ(saved[0].state, SavedState::kWhole);
  EXPECT_EQ(saved[1].path, first);
}

TEST_F(SavedFilesTest, WhatIsNoLineOfOursIsSkipped) {
  put("run/saves/rank-00000.jsonl", "{\"path\":\"relative\"}\nnot json\n{\"path\":\"/torn");
  EXPECT_TRUE(read_saved_files(*run_).empty());
}

TEST_F(SavedFilesTest, AFileOfAnyLengthIsReadToItsEnd) {
  const std::string last = put("last.pt", zip("z"));
  const std::string padding(200, 'p');
  for (uint64_t step = 1; told_.size() < (size_t{17} << 20); ++step) {
    told_ += fmt::format(R"({{"path":"/gone/{}-{}.pt","step":{},"unix_ns":{}}})"
                         "\n",
                         padding, step, step, 1'700'000'000'000'000'000 + step);
  }
  // A line longer than any of ours, and one that ends where a piece that is read ends.
  told_ += "{\"path\":\"/" + std::string(100'000, 'x') + "\"}\n";
  told_.append((size_t{1} << 20) - told_.size() % (size_t{1} << 20) - 1, ' ');
  told_ += '\n';
  tell(last, 900'000);
  const auto saved = read_saved_files(*run_);
  ASSERT_EQ(saved.size(), kMaxSavedFiles);
  EXPECT_EQ(saved[0].path, last);
  EXPECT_EQ(saved[0].state, SavedState::kWhole);
}

TEST_F(SavedFilesTest, ASaveThatFailedIsToldOnceByItsFirstRank) {
  put("run/saves/rank-00000.jsonl",
      R"({"step":9,"failed":"rank 1 could not write","unix_ns":1700000000000000009})"
      "\n"
      R"({"step":12,"failed":"no space","unix_ns":1700000000000000012})"
      "\n"
      R"({"path":"/a.pt","step":13,"unix_ns":1700000000000000013})"
      "\n");
  put("run/saves/rank-00001.jsonl",
      R"({"step":9,"failed":"no space left","unix_ns":1700000000000000008})"
      "\n");
  const auto failed = read_failed_saves(*run_);
  ASSERT_EQ(failed.size(), 2U);
  EXPECT_EQ(failed[0].step, 9U);
  EXPECT_EQ(failed[0].why, "no space left");
  EXPECT_EQ(failed[1].why, "no space");
  EXPECT_EQ(read_saved_files(*run_).size(), 1U);
}

TEST_F(SavedFilesTest, CheckpointsOfShantyAreWholeByTheirManifestAndPrunedOnesAreLeftOut) {
  put("step-2/MANIFEST.json", "{}");
  put("step-3/state.json", "{}");
  for (const uint64_t step : {1, 2, 3}) tell_committed(fmt::format("step-{}", step), step);
  const auto saved = read_saved_files(*run_);
  ASSERT_EQ(saved.size(), 2U);
  EXPECT_EQ(saved[0].step, 3U);
  EXPECT_EQ(saved[0].state, SavedState::kDamaged);
  EXPECT_EQ(saved[1].path, directory_ + "/step-2");
  EXPECT_EQ(saved[1].state, SavedState::kWhole);
}

}  // namespace
}  // namespace shanty
