// Rank stores, a leader and the channel between them, as in an engine, without its sockets.

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ckpt/leader.h"
#include "ckpt/lease.h"
#include "ckpt/memory_source.h"
#include "ckpt/peer_server.h"
#include "ckpt/rank_store.h"
#include "ckpt/reader.h"
#include "ckpt/session.h"
#include "os/files.h"

namespace shanty::ckpt {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kRows = 8;
constexpr uint64_t kColumns = 64;

// Passes on to the real one; writes fail while `broken` names a part of their path.
class BreakableVfs : public Vfs {
 public:
  struct Faults {
    std::string broken;
    bool links_fail = false;
    bool trash_fails = false;
    std::shared_future<void> reads_wait_for;
    std::shared_future<void> writes_wait_for;
  };

  // `change` is given the faults to set; a leader may be at work meanwhile.
  template <typename Change>
  void set(Change change) {
    const std::lock_guard lock(mutex_);
    change(faults_);
  }

  Result<std::unique_ptr<VfsFile>> open(const std::string& path, OpenOptions options) override {
    const Faults now = faults();
    if (options.create && !now.broken.empty() && path.find(now.broken) != std::string::npos) {
      return errno_error("opening " + path, ENOSPC);
    }
    const bool reads_tensors = !options.create && path.ends_with(".safetensors");
    if (reads_tensors && now.reads_wait_for.valid()) now.reads_wait_for.wait();
    if (options.create && now.writes_wait_for.valid()) now.writes_wait_for.wait();
    return real_.open(path, options);
  }
  Result<FileInfo> info(const std::string& path) override { return real_.info(path); }
  Result<std::vector<std::string>> list(const std::string& path) override {
    return real_.list(path);
  }
  Status make_directory(const std::string& path) override {
    if (faults().trash_fails && path.ends_with(".trash"))
      return errno_error("making " + path, ENOSPC);
    return real_.make_directory(path);
  }
  Status rename(const std::string& from, const std::string& to) override {
    return real_.rename(from, to);
  }
  Status remove_file(const std::string& path) override { return real_.remove_file(path); }
  Status remove_directory(const std::string& path) override { return real_.remove_directory(path); }
  Status hard_link(const std::string& from, const std::string& to) override {
    if (faults().links_fail) return errno_error("linking " + from, EPERM);
    return real_.hard_link(from, to);
  }
  Status replace_link(const std::string& path, const std::string& text) override {
    return real_.replace_link(path, text);
  }
  Status sync_directory(const std::string& path) override { return real_.sync_directory(path); }

 private:
  Faults faults() {
    const std::lock_guard lock(mutex_);
    return faults_;
  }

  Vfs& real_ = posix_vfs();
  std::mutex mutex_;
  Faults faults_;
};

class EngineTest : public ::testing::Test {
 protected:
  static constexpr int kRanks = 2;

  void SetUp() override {
    char pattern[] = "/tmp/shanty-engine-XXXXXX";
    root_ = ::mkdtemp(pattern);
    begin_generation(0);
  }
  void TearDown() override {
    stores_.clear();
    channels_.clear();
    leader_.reset();
    EXPECT_TRUE(remove_tree(root_).ok());
  }

  void begin_generation(uint64_t generation) {
    generation_ = generation;
    for (const auto& store : stores_) store->take_over(seconds(120));
    leader_.reset();
    auto leader = Leader::start(vfs_, {.root = root_,
                                       .run = "run",
                                       .generation = generation,
                                       .world_size = kRanks,
                                       .keep = keep_,
                                       .lost_limit = lost_limit_});
    ASSERT_TRUE(leader.ok()) << leader.error().message;
    leader_ = std::move(*leader);
    channels_.clear();
    for (int rank = 0; rank < kRanks; ++rank) {
      channels_.push_back(ChannelClient::connect(
          {.host = "127.0.0.1", .port = leader_->port(), .token = leader_->token(), .rank = rank}));
      if (stores_.size() < kRanks) {
        stores_.push_back(std::make_unique<RankStore>(vfs_, root_, rank));
        memory_.emplace_back(kRows * kColumns / kRanks);
      }
    }
    lay_out(still_);
  }

  static PieceSpec spec_of(int rank, bool still) {
    const uint64_t rows = kRows / kRanks;
    PieceSpec spec{.name = "w",
                   .group = Group::kModel,
                   .dtype = "F32",
                   .element_bytes = 4,
                   .shape = {kRows, kColumns},
                   .still = still};
    spec.boxes.push_back({{static_cast<uint64_t>(rank) * rows, 0}, {rows, kColumns}});
    return spec;
  }

  // `still`: from now on the tensor counts as one that does not change.
  void lay_out(bool still) {
    still_ = still;
    layouts_.clear();
    for (int rank = 0; rank < kRanks; ++rank) {
      auto layout = stores_[static_cast<size_t>(rank)]->set_layout({spec_of(rank, still)}, {0}, {});
      ASSERT_TRUE(layout.ok()) << layout.error().message;
      layouts_.push_back((*layout)->number);
    }
  }

  std::string still_file(uint64_t step, int rank) const {
    return fmt::format("{}/{}/model/shard-{:05}-still-00001-of-00001.safetensors", root_,
                       visible_name({.step = step, .generation = generation_}), rank + 1);
  }

  static void damage(const std::string& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(5000);
    file << "damage";
    ASSERT_TRUE(file.good()) << path;
  }

  static uint64_t address_of(const std::vector<float>& memory) {
    return reinterpret_cast<uint64_t>(memory.data());
  }

  // Fills every rank's memory with numbers that follow from `salt` and saves it.
  void save(uint64_t step, float salt) {
    ++number_;
    for (size_t rank = 0; rank < kRanks; ++rank) save_rank(rank, step, salt);
  }

  void save_rank(size_t rank, uint64_t step, float salt, bool freed = false) {
    for (size_t i = 0; i < memory_[rank].size(); ++i) {
      memory_[rank][i] = salt + static_cast<float>(rank * memory_[rank].size() + i);
    }
    const auto slot = stores_[rank]->begin(layouts_[rank], step, seconds(120));
    ASSERT_TRUE(slot.ok()) << slot.error().message;
    const Status begun =
        stores_[rank]->save({.layout = layouts_[rank],
                             .slot = *slot,
                             .id = {step, generation_, number_},
                             .pid = ::getpid(),
                             .addresses = {freed ? uint64_t{1} : address_of(memory_[rank])},
                             .world_size = kRanks,
                             .state_json = fmt::format(R"({{"rank":{}}})", rank),
                             .global_json = fmt::format(R"({{"step":{}}})", step),
                             .channel = channels_[rank],
                             .node = "here"});
    ASSERT_TRUE(begun.ok()) << begun.error().message;
  }

  void save_and_wait(uint64_t step, float salt = 0) {
    save(step, salt);
    for (int rank = 0; rank < kRanks; ++rank) {
      ASSERT_EQ(end_of(rank, step).state, SlotState::kCommitted) << end_of(rank, step).error;
    }
  }

  SaveStatus end_of(int rank, uint64_t step) {
    const auto status =
        stores_[static_cast<size_t>(rank)]->wait(step, 0, SlotState::kCommitted, seconds(120));
    EXPECT_TRUE(status.ok());
    return *status;
  }

  static void expect_content(CheckpointReader& reader, float salt) {
    std::vector<float> all(kRows * kColumns);
    Want want{.name = "w", .boxes = {}, .out = reinterpret_cast<char*>(all.data())};
    want.boxes.push_back({{0, 0}, {kRows, kColumns}});
    const Status read = reader.read({want}, 2);
    ASSERT_TRUE(read.ok()) << read.error().message;
    for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], salt + static_cast<float>(i));
  }

  MemoryPlace in_memory(SlotId id) {
    MemoryPlace place{.root = root_, .id = id, .here = {}, .elsewhere = {}};
    for (const auto& store : stores_) {
      for (Snapshot& held : store->snapshots()) {
        if (held.id == id) place.here.emplace(held.rank, std::move(held));
      }
    }
    return place;
  }

  BreakableVfs vfs_;
  std::string root_;
  uint64_t generation_ = 0;
  uint64_t number_ = 0;
  size_t keep_ = 2;
  bool still_ = false;
  Duration lost_limit_ = seconds(120);
  std::unique_ptr<Leader> leader_;
  std::vector<std::shared_ptr<ChannelClient>> channels_;
  std::vector<std::vector<float>> memory_;
  std::vector<std::unique_ptr<RankStore>> stores_;
  std::vector<uint64_t> layouts_;
};

TEST_F(EngineTest, WhatAllRanksSavedIsOnStorageAndInMemory) {
  save(10, 1000);
  for (int rank = 0; rank < kRanks; ++rank) {
    const SaveStatus end = end_of(rank, 10);
    ASSERT_EQ(end.state, SlotState::kCommitted) << end.error;
  }
  std::vector<std::pair<std::string, std::string>> skipped;
  auto reader = open_newest(vfs_, root_, std::nullopt, skipped);
  ASSERT_TRUE(reader.ok() && *reader != nullptr);
  expect_content(**reader, 1000);
  EXPECT_EQ(*(*reader)->read_file(state_path(1)), R"({"rank":1})");
  const auto source = MemorySource::open(in_memory({10, 0, 1}));
  ASSERT_TRUE(source.ok()) << source.error().message;
  expect_content((*source)->reader(), 1000);
}

TEST_F(EngineTest, OneRanksFullDiskFailsTheSaveOfAllAndHarmsNothing) {
  save(10, 1000);
  ASSERT_EQ(end_of(0, 10).state, SlotState::kCommitted);
  vfs_.set([](auto& faults) { faults.broken = "shard-00002"; });
  save(20, 2000);
  EXPECT_EQ(end_of(1, 20).state, SlotState::kFailed);
  EXPECT_THAT(end_of(1, 20).error, HasSubstr("No space left"));
  EXPECT_EQ(end_of(0, 20).state, SlotState::kFailed);
  EXPECT_THAT(end_of(0, 20).error, HasSubstr("rank 1 could not write"));
  vfs_.set([](auto& faults) { faults.broken.clear(); });
  const auto listed = list_checkpoints(vfs_, root_);
  ASSERT_TRUE(listed.ok());
  ASSERT_EQ(listed->size(), 1U);
  EXPECT_EQ(listed->front().id.step, 10U);
  save(30, 3000);
  EXPECT_EQ(end_of(0, 30).state, SlotState::kCommitted) << end_of(0, 30).error;
}

TEST_F(EngineTest, ARankWhoseEngineIsGoneFailsTheSaveOfTheOthers) {
  lost_limit_ = std::chrono::milliseconds(100);
  begin_generation(1);
  const auto place = channels_[1]->ask("dir", "10.0", "", seconds(120));
  ASSERT_TRUE(place.ok()) << place.error().message;
  save_rank(0, 10, 1000);
  channels_[1].reset();
  EXPECT_EQ(end_of(0, 10).state, SlotState::kFailed);
  EXPECT_THAT(end_of(0, 10).error, HasSubstr("rank 1's checkpoint engine is gone"));
  EXPECT_TRUE(list_checkpoints(vfs_, root_)->empty());
}

TEST_F(EngineTest, ASaveInMemoryOutlivesStorageThatFails) {
  vfs_.set([](auto& faults) { faults.broken = "shard"; });
  save(10, 1000);
  EXPECT_EQ(end_of(0, 10).state, SlotState::kFailed);
  EXPECT_EQ(end_of(1, 10).state, SlotState::kFailed);
  const auto source = MemorySource::open(in_memory({10, 0, 1}));
  ASSERT_TRUE(source.ok()) << source.error().message;
  expect_content((*source)->reader(), 1000);
}

TEST_F(EngineTest, AStepThatALaterGenerationSavesAgainIsNotMixedWithTheFirst) {
  save(10, 1000);
  ASSERT_EQ(end_of(0, 10).state, SlotState::kCommitted);
  ASSERT_EQ(end_of(1, 10).state, SlotState::kCommitted);
  begin_generation(1);
  save(10, 5000);
  ASSERT_EQ(end_of(0, 10).state, SlotState::kCommitted) << end_of(0, 10).error;
  ASSERT_EQ(end_of(1, 10).state, SlotState::kCommitted);
  for (const auto& [generation, salt] :
       {std::pair{uint64_t{0}, 1000.0F}, std::pair{uint64_t{1}, 5000.0F}}) {
    const auto source = MemorySource::open(in_memory({10, generation, generation + 1}));
    ASSERT_TRUE(source.ok()) << source.error().message;
    expect_content((*source)->reader(), salt);
  }
  std::vector<std::pair<std::string, std::string>> skipped;
  auto reader = open_newest(vfs_, root_, std::nullopt, skipped);
  ASSERT_TRUE(reader.ok() && *reader != nullptr);
  EXPECT_EQ((*reader)->manifest().id.generation, 1U);
  expect_content(**reader, 5000);
}

TEST_F(EngineTest, ATrialOfTheStorageLeavesNothingBehind) {
  struct rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const struct rlimit limit{.rlim_cur = 5000, .rlim_max = before.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto tried = channels_[0]->ask("probe", "1", "", seconds(120));
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  ASSERT_FALSE(tried.ok());
  EXPECT_THAT(tried.error().message, HasSubstr("File too large"));
  EXPECT_EQ(list_directory(root_).value(), std::vector<std::string>{"GENERATION"});
  // What a killed process leaves goes when the next one opens the directory.
  ASSERT_TRUE(replace_file(root_ + "/.probe-1234", "left").ok());
  begin_generation(1);
  EXPECT_FALSE(channels_[0]->ask("nonsense", "", "", seconds(120)).ok());
  EXPECT_EQ(list_directory(root_).value(), std::vector<std::string>{"GENERATION"});
}

TEST_F(EngineTest, ASpoiledSaveIsTakenBack) {
  save(10, 1000);
  ASSERT_EQ(end_of(0, 10).state, SlotState::kCommitted);
  save(20, 2000);
  ASSERT_EQ(end_of(0, 20).state, SlotState::kCommitted);
  ASSERT_EQ(end_of(1, 20).state, SlotState::kCommitted);
  stores_[1]->spoil({20, 0, 2});
  const auto told = channels_[1]->ask("spoil", "20.2", "", seconds(120));
  ASSERT_TRUE(told.ok()) << told.error().message;
  const auto listed = list_checkpoints(vfs_, root_);
  ASSERT_TRUE(listed.ok());
  ASSERT_EQ(listed->size(), 1U);
  EXPECT_EQ(listed->front().id.step, 10U);
  EXPECT_FALSE(in_memory({20, 0, 2}).here.contains(1));
}

TEST_F(EngineTest, WhatDidNotChangeIsLinkedAndEachCheckpointIsWhole) {
  lay_out(true);
  save_and_wait(10, 1000);
  save_and_wait(20, 1000);
  EXPECT_EQ(std::filesystem::hard_link_count(still_file(20, 0)), 2U);
  EXPECT_EQ(std::filesystem::hard_link_count(still_file(20, 1)), 2U);
  // Two are kept: the first goes, and what it shared stays.
  save_and_wait(30, 1000);
  leader_.reset();
  EXPECT_FALSE(std::filesystem::exists(still_file(10, 0)));
  begin_generation(0);
  EXPECT_EQ(std::filesystem::hard_link_count(still_file(30, 0)), 2U);
  // The bytes decide, not the mark.
  save_and_wait(40, 7000);
  EXPECT_EQ(std::filesystem::hard_link_count(still_file(40, 0)), 1U);
  leader_.reset();
  for (const auto& [step, salt] : {std::pair{30, 1000.0F}, std::pair{40, 7000.0F}}) {
    const std::string directory =
        root_ + "/" + visible_name({.step = static_cast<uint64_t>(step), .generation = 0});
    EXPECT_TRUE(verify_checkpoint(vfs_, directory, 1).empty());
    const auto reader = open_checkpoint(vfs_, directory);
    ASSERT_TRUE(reader.ok()) << reader.error().message;
    expect_content(**reader, salt);
  }
}

TEST_F(EngineTest, WhereLinksFailTheBytesAreWritten) {
  lay_out(true);
  vfs_.set([](auto& faults) { faults.links_fail = true; });
  for (const uint64_t step : {10, 20}) {
    save(step, 1000);
    ASSERT_EQ(end_of(0, step).state, SlotState::kCommitted) << end_of(0, step).error;
    ASSERT_EQ(end_of(1, step).state, SlotState::kCommitted);
  }
  EXPECT_EQ(std::filesystem::hard_link_count(still_file(20, 0)), 1U);
}

TEST_F(EngineTest, ACopyThatFailsIsToldToAllRanksAtOnce) {
  ++number_;
  save_rank(0, 10, 1);
  save_rank(1, 10, 1, true);
  EXPECT_EQ(end_of(1, 10).state, SlotState::kFailed);
  EXPECT_EQ(end_of(0, 10).state, SlotState::kFailed);
  EXPECT_NE(end_of(0, 10).error.find("rank 1"), std::string::npos) << end_of(0, 10).error;
  EXPECT_EQ(list_checkpoints(vfs_, root_).value().size(), 0U);
}

TEST_F(EngineTest, ACopyThatFailsHarmsNotTheSaveInMemoryBefore) {
  save_and_wait(10, 1000);
  ++number_;
  save_rank(0, 20, 2000);
  save_rank(1, 20, 2000, true);
  EXPECT_EQ(end_of(1, 20).state, SlotState::kFailed);
  const auto source = MemorySource::open(in_memory({10, 0, 1}));
  ASSERT_TRUE(source.ok()) << source.error().message;
  expect_content((*source)->reader(), 1000);
}

TEST_F(EngineTest, OldOnesGoOnlyAfterTheNewest) {
  for (const uint64_t step : {10, 20, 30, 40}) {
    save(step, static_cast<float>(step));
    ASSERT_EQ(end_of(0, step).state, SlotState::kCommitted) << end_of(0, step).error;
    ASSERT_EQ(end_of(1, step).state, SlotState::kCommitted);
  }
  // The leader prunes after it has answered; its end waits for that.
  leader_.reset();
  const auto listed = list_checkpoints(vfs_, root_);
  ASSERT_TRUE(listed.ok());
  ASSERT_EQ(listed->size(), 2U);
  EXPECT_EQ((*listed)[0].id.step, 40U);
  EXPECT_EQ((*listed)[1].id.step, 30U);
}

TEST_F(EngineTest, ALeaderInAHurryReadsNothingBackAndPrunesNothing) {
  std::promise<void> go;
  vfs_.set([&](auto& faults) { faults.reads_wait_for = go.get_future(); });
  for (const uint64_t step : {10, 20, 30, 40}) {
    save(step, static_cast<float>(step));
    EXPECT_EQ(end_of(0, step).state, SlotState::kCommitted) << end_of(0, step).error;
  }
  leader_->hurry();
  go.set_value();
  leader_.reset();
  EXPECT_EQ(list_checkpoints(vfs_, root_)->size(), 4U);
}

TEST_F(EngineTest, SavesDoNotWaitUntilAnotherWasReadBack) {
  std::promise<void> go;
  vfs_.set([&](auto& faults) { faults.reads_wait_for = go.get_future(); });
  for (const uint64_t step : {10, 20, 30, 40}) {
    save(step, static_cast<float>(step));
    EXPECT_EQ(end_of(0, step).state, SlotState::kCommitted) << end_of(0, step).error;
    EXPECT_EQ(end_of(1, step).state, SlotState::kCommitted);
  }
  EXPECT_EQ(list_checkpoints(vfs_, root_).value().size(), 4U);
  go.set_value();
  leader_.reset();
  EXPECT_EQ(list_checkpoints(vfs_, root_).value().size(), 2U);
}

TEST_F(EngineTest, AStepMayBeSavedAgainWhileItIsStillBeingWritten) {
  save(10, 1000);
  save(10, 5000);
  for (int rank = 0; rank < kRanks; ++rank) {
    for (const uint64_t number : {1, 2}) {
      const auto end =
          stores_[static_cast<size_t>(rank)]->wait(10, number, SlotState::kCommitted, seconds(120));
      ASSERT_TRUE(end.ok()) << end.error().message;
      EXPECT_EQ(end->state, SlotState::kCommitted) << end->error;
    }
  }
  const auto second = MemorySource::open(in_memory({10, 0, 2}));
  ASSERT_TRUE(second.ok()) << second.error().message;
  expect_content((*second)->reader(), 5000);
  EXPECT_EQ(list_checkpoints(vfs_, root_).value().size(), 2U);
}

TEST_F(EngineTest, SavesGoOnAfterAReturnToAnEarlierStep) {
  for (uint64_t step = 100; step < 140; ++step) save_and_wait(step);
  save(5, 5);
  save(6, 6);
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(end_of(rank, 5).state, SlotState::kCommitted) << end_of(rank, 5).error;
    EXPECT_EQ(end_of(rank, 6).state, SlotState::kCommitted) << end_of(rank, 6).error;
  }
}

TEST_F(EngineTest, ARankThatCannotBeginASaveFailsThatOfTheOthersAtOnce) {
  for (const bool is_first : {true, false}) {
    ++number_;
    const uint64_t step = is_first ? 10 : 20;
    const std::string key = fmt::format("{}.{}", step, number_);
    if (!is_first) save_rank(0, step, 1000);
    ASSERT_TRUE(channels_[1]->ask("spoil", key, "no memory", seconds(120)).ok());
    if (is_first) save_rank(0, step, 1000);
    EXPECT_EQ(end_of(0, step).state, SlotState::kFailed);
    EXPECT_THAT(end_of(0, step).error, HasSubstr("rank 1 gave it up: no memory"));
  }
  save(30, 3000);
  EXPECT_EQ(end_of(0, 30).state, SlotState::kCommitted) << end_of(0, 30).error;
}

TEST_F(EngineTest, CopiesOfASpoiledSaveAreNotLoaded) {
  save(10, 1000);
  save(20, 2000);
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_EQ(end_of(rank, 20).state, SlotState::kCommitted) << end_of(rank, 20).error;
  }
  stores_[1]->spoil({20, 0, 2});
  // The other ranks' slots are as they were, and somebody may have a copy of this one's.
  const std::string slots = "[[10,0,1,0,2],[10,0,1,1,2],[20,0,2,0,2],[20,0,2,1,2]]";
  const std::string peer = R"("peer":{"host":"127.0.0.1","port":1,"token":""})";
  auto other = std::async(std::launch::async, [&] {
    return channels_[0]->ask("find", "1", fmt::format("{{\"slots\":{},{}}}", slots, peer),
                             seconds(120));
  });
  ASSERT_EQ(stores_[1]->spoiled().size(), 1U);
  const auto found = channels_[1]->ask(
      "find", "1", fmt::format(R"({{"slots":[],"spoiled":[[20,0,2]],{}}})", peer), seconds(120));
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_THAT(*found, Not(HasSubstr("memory:20.")));
  EXPECT_TRUE(other.get().ok());
}

TEST_F(EngineTest, AFullDiskKeepsNothingOfASaveThatFailed) {
  vfs_.set([](auto& faults) { faults.broken = "shard-00002"; });
  vfs_.set([](auto& faults) { faults.trash_fails = true; });
  ++number_;
  save_rank(1, 10, 1000);
  EXPECT_EQ(end_of(1, 10).state, SlotState::kFailed);
  save_rank(0, 10, 1000);
  EXPECT_EQ(end_of(0, 10).state, SlotState::kFailed);
  EXPECT_EQ(list_directory(root_).value(), std::vector<std::string>{"GENERATION"});
}

TEST_F(EngineTest, SavesGoOnAfterSomebodyRemovedAllThatWasThere) {
  save_and_wait(10);
  ASSERT_TRUE(remove_tree(root_).ok());
  save_and_wait(20);
  EXPECT_EQ(list_checkpoints(vfs_, root_).value().size(), 1U);
}

TEST_F(EngineTest, TheOneBeforeStaysWhileTheNewestMayBeTakenBack) {
  keep_ = 1;
  begin_generation(1);
  save_and_wait(10);
  save_and_wait(20);
  ASSERT_TRUE(channels_[1]->ask("spoil", "20.2", "it changed", seconds(120)).ok());
  leader_.reset();
  const auto listed = list_checkpoints(vfs_, root_).value();
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].id.step, 10U);
  begin_generation(2);
  save_and_wait(30);
  // Nobody can take it back any more.
  leader_.reset();
  EXPECT_EQ(list_checkpoints(vfs_, root_).value().size(), 1U);
}

TEST_F(EngineTest, WhatDoesNotReadBackIsTold) {
  lay_out(true);
  save_and_wait(10, 1000);
  save_and_wait(20, 1000);
  damage(still_file(20, 0));
  ::testing::internal::CaptureStderr();
  save_and_wait(30, 1000);
  leader_.reset();  // waits for the pruning
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("does not read back"));
  EXPECT_EQ(list_checkpoints(vfs_, root_).value().size(), 3U);
}

TEST_F(EngineTest, WhereTheLeaderFoundDamageTheBytesAreWritten) {
  lay_out(true);
  save_and_wait(10, 1000);
  save_and_wait(20, 1000);
  ASSERT_EQ(std::filesystem::hard_link_count(still_file(20, 0)), 2U);
  damage(still_file(20, 0));
  // Read back with this one, whose file is the same.
  save_and_wait(30, 1000);
  uint64_t step = 40;
  while (std::filesystem::hard_link_count(still_file(step - 10, 0)) > 1) {
    ASSERT_LT(step, 1000U);
    save_and_wait(step, 1000);
    step += 10;
  }
  leader_.reset();
  const std::string directory =
      root_ + "/" + visible_name({.step = step - 10, .generation = generation_});
  EXPECT_TRUE(verify_checkpoint(vfs_, directory, 1).empty());
}

TEST_F(EngineTest, StorageThatHangsIsWaitedForOnce) {
  std::promise<void> go;
  vfs_.set([&](auto& faults) { faults.writes_wait_for = go.get_future(); });
  save(10, 1);
  save(20, 2);
  const auto limit = std::chrono::milliseconds(20);
  const auto first = stores_[0]->begin(layouts_[0], 30, limit);
  ASSERT_FALSE(first.ok());
  EXPECT_THAT(first.error().message, HasSubstr("look at the storage"));
  const auto second = stores_[0]->begin(layouts_[0], 40, seconds(3600));
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message, HasSubstr("as they were at the save before"));
  go.set_value();
  EXPECT_EQ(end_of(0, 20).state, SlotState::kCommitted) << end_of(0, 20).error;
  EXPECT_TRUE(stores_[0]->begin(layouts_[0], 50, seconds(120)).ok());
}

TEST_F(EngineTest, StorageThatHangsHoldsNoSuccessorUp) {
  std::promise<void> go;
  vfs_.set([&](auto& faults) { faults.writes_wait_for = go.get_future(); });
  save(10, 1);
  save(20, 2);
  stores_[0]->take_over(std::chrono::milliseconds(10));
  const auto layout = stores_[0]->set_layout({spec_of(0, false)}, {0}, {});
  ASSERT_TRUE(layout.ok()) << layout.error().message;
  EXPECT_TRUE(stores_[0]->begin((*layout)->number, 30, seconds(120)).ok());
  EXPECT_TRUE(stores_[0]->begin((*layout)->number, 40, seconds(120)).ok());
  go.set_value();
  EXPECT_EQ(end_of(0, 20).state, SlotState::kFailed);
  // The other rank's saves, whose place nobody took, may still be under way.
  for (const Listed& listed : list_checkpoints(vfs_, root_).value()) {
    EXPECT_NE(listed.state, CheckpointState::kCommitted) << listed.directory;
  }
}

TEST_F(EngineTest, WhosePlaceWasTakenBeginsAndSavesNothing) {
  const auto slot = stores_[0]->begin(layouts_[0], 10, seconds(120));
  ASSERT_TRUE(slot.ok()) << slot.error().message;
  const uint64_t before = layouts_[0];
  begin_generation(1);
  const RankStore::Request late{.layout = before,
                                .slot = *slot,
                                .id = {10, 0, 1},
                                .pid = ::getpid(),
                                .addresses = {address_of(memory_[0])},
                                .channel = channels_[0]};
  EXPECT_THAT(stores_[0]->save(late).error().message, HasSubstr("not the latest"));
  EXPECT_FALSE(stores_[0]->begin(before, 20, seconds(120)).ok());
}

TEST_F(EngineTest, WhoWaitsForASlotIsTurnedAwayWhenItsPlaceIsTaken) {
  std::promise<void> go;
  vfs_.set([&](auto& faults) { faults.writes_wait_for = go.get_future(); });
  save(10, 1);
  save(20, 2);
  auto waiting = std::async(std::launch::async, [&, layout = layouts_[0]] {
    return stores_[0]->begin(layout, 30, seconds(600)).ok();
  });
  stores_[0]->take_over(std::chrono::milliseconds(10));
  EXPECT_FALSE(waiting.get());
  go.set_value();
}

TEST_F(EngineTest, ALeaderWhoseStorageHangsIsWaitedForAMomentOnly) {
  Stores stores(vfs_);
  EXPECT_TRUE(stores.end_leader(root_, Duration(0)));
  std::promise<void> go;
  vfs_.set([&](auto& faults) { faults.writes_wait_for = go.get_future(); });
  const std::string root = root_ + "/other";
  auto leader = Leader::start(vfs_, {.root = root, .run = "run"});
  ASSERT_TRUE(leader.ok()) << leader.error().message;
  stores.set_leader(root, std::move(*leader));
  EXPECT_FALSE(stores.end_leader(root, std::chrono::milliseconds(10)));
  EXPECT_FALSE(stores.end_leader(root, std::chrono::milliseconds(10)));
  go.set_value();
  EXPECT_TRUE(stores.end_leader(root, seconds(120)));
}

TEST_F(EngineTest, NoLeaseStaysOnWhatCannotBeLoaded) {
  save_and_wait(10);
  const std::string directory = root_ + "/" + visible_name({.step = 10, .generation = 0});
  std::filesystem::remove(directory + "/state/rank-00001.json");
  const auto find = [this](size_t rank) {
    return channels_[rank]->ask("find", "1", "{}", seconds(120));
  };
  auto other = std::async(std::launch::async, find, 0);
  const auto found = find(1);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_THAT(*found, HasSubstr("is missing"));
  EXPECT_TRUE(other.get().ok());
  EXPECT_FALSE(is_leased(vfs_, directory).value());
}

TEST(PeerReader, AConnectionThatWasIdleForLongIsMadeAgain) {
  const Snapshot slot{.id = {.step = 1}, .state_json = "{}", .global_json = "{}"};
  const auto find = [&](const std::string&, int, SlotId) { return std::optional(slot); };
  const auto limit = std::chrono::milliseconds(600);
  const auto server = PeerServer::start(true, find, limit).value();
  PeerReader reader({.host = "127.0.0.1", .port = server->port(), .token = server->token()});
  ASSERT_TRUE(reader.facts({.root = "/", .id = slot.id}).ok());
  std::this_thread::sleep_for(3 * limit);
  const auto again = reader.facts({.root = "/", .id = slot.id});
  EXPECT_TRUE(again.ok()) << again.error().message;
}

TEST(Stores, ASaveInSlotsIsOpenedOnceForAllWhoReadIt) {
  Stores stores(posix_vfs());
  const auto open = [&stores] {
    Snapshot slot{.id = {.step = 1, .generation = 2}, .state_json = "{}", .global_json = "{}"};
    slot.world_size = 1;
    MemoryPlace place{.root = "/root", .id = slot.id, .here = {}, .elsewhere = {}};
    place.here.emplace(0, std::move(slot));
    return stores.open_memory("memory:1.2", std::move(place)).value();
  };
  auto first = open();
  EXPECT_EQ(open(), first);
  const std::weak_ptr<MemorySource> before = first;
  first.reset();
  EXPECT_TRUE(before.expired());
  EXPECT_EQ(open()->reader().manifest().id.step, 1U);
}

}  // namespace
}  // namespace shanty::ckpt
