// The checker of the crash model is itself checked: protocols with one mistake, and those of
// others, must be found out. docs/crash-model.md has the counts.

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "ckpt/power_cuts.h"

namespace shanty::ckpt {
namespace {

// The model with one mistake in between.
class Mutant : public Vfs {
 public:
  using SyncFile = std::function<Status(VfsFile&, const std::string& path)>;

  explicit Mutant(ModelVfs& model) : model_(model) {}

  SyncFile sync_file = [](VfsFile& file, const std::string&) { return file.sync(); };
  std::function<bool(const std::string& path)> skips_directory = [](const auto&) { return false; };
  std::function<void(const std::string& to)> after_rename = [](const auto&) {};

  Result<std::unique_ptr<VfsFile>> open(const std::string& path, OpenOptions options) override {
    auto file = TRY(model_.open(path, options));
    return std::unique_ptr<VfsFile>(std::make_unique<File>(*this, std::move(file), path));
  }
  Result<FileInfo> info(const std::string& path) override { return model_.info(path); }
  Result<std::vector<std::string>> list(const std::string& d) override { return model_.list(d); }
  Status make_directory(const std::string& path) override { return model_.make_directory(path); }
  Status rename(const std::string& from, const std::string& to) override {
    TRY_STATUS(model_.rename(from, to));
    after_rename(to);
    return {};
  }
  Status remove_file(const std::string& path) override { return model_.remove_file(path); }
  Status remove_directory(const std::string& p) override { return model_.remove_directory(p); }
  Status hard_link(const std::string& from, const std::string& to) override {
    return model_.hard_link(from, to);
  }
  Status replace_link(const std::string& path, const std::string& text) override {
    return model_.replace_link(path, text);
  }
  Status sync_directory(const std::string& path) override {
    return skips_directory(path) ? Status() : model_.sync_directory(path);
  }

 private:
  class File : public VfsFile {
   public:
    File(Mutant& mutant, std::unique_ptr<VfsFile> file, std::string path)
        : mutant_(mutant), file_(std::move(file)), path_(std::move(path)) {}
    Status write_at(uint64_t o, std::string_view b) override { return file_->write_at(o, b); }
    Result<size_t> read_at(uint64_t o, char* out, size_t s) override {
      return file_->read_at(o, out, s);
    }
    Status truncate(uint64_t size) override { return file_->truncate(size); }
    Status allocate(uint64_t size) override { return file_->allocate(size); }
    Status sync() override { return mutant_.sync_file(*file_, path_); }
    Status close() override { return file_->close(); }

   private:
    Mutant& mutant_;
    std::unique_ptr<VfsFile> file_;
    std::string path_;
  };

  ModelVfs& model_;
};

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

bool is_shard(const std::string& path) { return contains(path, ".safetensors"); }
bool is_new_manifest(const std::string& path) { return contains(path, "MANIFEST.json.tmp"); }

void expect_found_out(const std::string& name, const Plan& plan,
                      const std::function<void(Mutant&, ModelVfs&)>& break_it) {
  const Outcome outcome = run_history(
      plan,
      [&](ModelVfs& model) {
        auto mutant = std::make_unique<Mutant>(model);
        break_it(*mutant, model);
        return mutant;
      },
      false);
  EXPECT_GT(outcome.violations, 0U) << name;
  std::printf("| %s | %zu | %zu | %s\n", name.c_str(), outcome.states, outcome.violations,
              outcome.first_violation.c_str());
}

const Plan kPlan{.seed = 4, .saves = 2, .per_moment = 25};

TEST(CrashModelMutants, ShardsNotSynced) {
  expect_found_out("shards are not synced", kPlan, [](Mutant& mutant, ModelVfs&) {
    mutant.sync_file = [](VfsFile& file, const std::string& path) {
      return is_shard(path) ? Status() : file.sync();
    };
  });
}

TEST(CrashModelMutants, ShardDirectoriesNotSynced) {
  expect_found_out("model/, optim/ and state/ are not synced", kPlan, [](Mutant& m, ModelVfs&) {
    m.skips_directory = [](const std::string& path) {
      return path.ends_with("/model") || path.ends_with("/optim") || path.ends_with("/state");
    };
  });
}

TEST(CrashModelMutants, ManifestNotSynced) {
  expect_found_out("the manifest is not synced before its rename", kPlan, [](Mutant& m, ModelVfs&) {
    m.sync_file = [](VfsFile& file, const std::string& path) {
      return is_new_manifest(path) ? Status() : file.sync();
    };
  });
}

TEST(CrashModelMutants, ManifestSyncedAfterItsRename) {
  expect_found_out("the manifest is synced after its rename", kPlan,
                   [](Mutant& m, ModelVfs& model) {
                     m.sync_file = [](VfsFile& file, const std::string& path) {
                       return is_new_manifest(path) ? Status() : file.sync();
                     };
                     m.after_rename = [&model](const std::string& to) {
                       if (!to.ends_with("/MANIFEST.json")) return;
                       const auto file = model.open(to, {.write = true});
                       ASSERT_TRUE(file.ok());
                       ASSERT_TRUE((*file)->sync().ok());
                     };
                   });
}

TEST(CrashModelMutants, CheckpointDirectoryNotSynced) {
  expect_found_out("the directory of the manifest is not synced", kPlan, [](Mutant& m, ModelVfs&) {
    m.skips_directory = [](const std::string& path) { return path.ends_with(".a01"); };
  });
}

TEST(CrashModelMutants, RootNotSynced) {
  expect_found_out("ROOT is not synced", kPlan, [](Mutant& m, ModelVfs&) {
    m.skips_directory = [](const std::string& path) { return path == kRoot; };
  });
}

TEST(CrashModelMutants, FailedSyncTriedAgain) {
  expect_found_out("a failed sync of a shard is tried again", kPlan,
                   [](Mutant& m, ModelVfs& model) {
                     m.sync_file = [&model](VfsFile& file, const std::string& path) {
                       if (!is_shard(path)) return file.sync();
                       model.fault = [](size_t) { return Fault::kEio; };
                       EXPECT_FALSE(file.sync().ok());
                       model.fault = nullptr;
                       return file.sync();
                     };
                   });
}

TEST(CrashModelMutants, OldDeletedBeforeTheNewIsWritten) {
  Plan plan = kPlan;
  plan.delete_first = true;
  expect_found_out("the old one is deleted before the new one is written", plan,
                   [](Mutant&, ModelVfs&) {});
}

// ---- The protocols of others, each with a loader that is as forgiving as it can be. ----

const std::string kDir = "/peer";

std::string content(uint64_t step) {
  std::string out = fmt::format("save {} ", step);
  Rng rng(step);
  while (out.size() < 5000) out += static_cast<char>('a' + rng.below(26));
  return out + "end";
}

Status put(Vfs& vfs, const std::string& path, const std::string& text, bool create, bool sync) {
  const auto file = TRY(vfs.open(path, {.create = create, .write = true}));
  if (!create) TRY_STATUS(file->truncate(0));
  TRY_STATUS(file->write_at(0, text.substr(0, text.size() / 2)));
  TRY_STATUS(file->write_at(text.size() / 2, text.substr(text.size() / 2)));
  if (sync) TRY_STATUS(file->sync());
  return file->close();
}

// The step of a whole save in `path`, or nullopt.
std::optional<uint64_t> whole_save(Vfs& vfs, const std::string& path) {
  const auto text = read_front(vfs, path, 1 << 20);
  uint64_t step = 0;
  if (!text.ok() || std::sscanf(text->c_str(), "save %lu ", &step) != 1) return std::nullopt;
  return *text == content(step) ? std::optional(step) : std::nullopt;
}

struct Peer {
  std::string name;
  std::function<Status(Vfs&, uint64_t step)> save;
  std::function<std::optional<uint64_t>(Vfs&)> load;
};

void expect_peer_found_out(const Peer& peer) {
  ModelVfs model;
  ASSERT_TRUE(model.make_directory(kDir).ok());
  ASSERT_TRUE(model.sync_directory("/").ok());
  History history;
  size_t nothing = 0;
  PowerCuts cuts(model, 1, 200, [&](ModelVfs& after, uint64_t) -> std::string {
    const auto step = peer.load(after);
    if (history.acked == 0 || (step && *step >= history.acked)) return "";
    if (!step) ++nothing;
    return step ? fmt::format("save {} after {}", *step, history.acked) : "nothing can be loaded";
  });
  for (uint64_t step = 1; step <= 4; ++step) {
    history.begun = step;
    const Status saved = peer.save(model, step);
    ASSERT_TRUE(saved.ok()) << saved.error().message;
    history.acked = step;
    cuts.promise();
    cuts.cut();
  }
  EXPECT_GT(cuts.violations, 0U);
  std::printf("| %s | %zu | %zu, nothing at all in %zu | %s\n", peer.name.c_str(), cuts.states,
              cuts.violations, nothing, cuts.first_violation.c_str());
}

TEST(CrashModelPeers, WriteAndRenameWithoutSync) {
  expect_peer_found_out({.name = "torch.save to a temporary file and rename, no sync",
                         .save = [](Vfs& vfs, uint64_t step) -> Status {
                           TRY_STATUS(put(vfs, kDir + "/ckpt.tmp", content(step), true, false));
                           return vfs.rename(kDir + "/ckpt.tmp", kDir + "/ckpt.pt");
                         },
                         .load = [](Vfs& vfs) { return whole_save(vfs, kDir + "/ckpt.pt"); }});
}

TEST(CrashModelPeers, MetadataUnlinkedBeforeItsRename) {
  expect_peer_found_out({.name = "DCP's finish: unlink .metadata, rename the new one",
                         .save = [](Vfs& vfs, uint64_t step) -> Status {
                           // Kinder than DCP: data under new names, and its entries synced.
                           const std::string data = fmt::format("{}/__{}_0.distcp", kDir, step);
                           TRY_STATUS(put(vfs, data, content(step), true, true));
                           TRY_STATUS(vfs.sync_directory(kDir));
                           const std::string metadata = kDir + "/.metadata";
                           TRY_STATUS(put(vfs, metadata + ".tmp", data, true, true));
                           if (TRY(vfs.info(metadata)).exists)
                             TRY_STATUS(vfs.remove_file(metadata));
                           return vfs.rename(metadata + ".tmp", metadata);
                         },
                         .load = [](Vfs& vfs) -> std::optional<uint64_t> {
                           const auto data = read_front(vfs, kDir + "/.metadata", 4096);
                           if (!data.ok() || data->empty() || data->front() != '/')
                             return std::nullopt;
                           return whole_save(vfs, *data);
                         }});
}

TEST(CrashModelPeers, PointerTruncatedInPlace) {
  expect_peer_found_out({.name = "data synced, then `latest` truncated and written in place",
                         .save = [](Vfs& vfs, uint64_t step) -> Status {
                           const std::string data = fmt::format("{}/step-{}", kDir, step);
                           TRY_STATUS(put(vfs, data, content(step), true, true));
                           TRY_STATUS(vfs.sync_directory(kDir));
                           const std::string latest = kDir + "/latest";
                           const bool create = !TRY(vfs.info(latest)).exists;
                           return put(vfs, latest, data, create, false);
                         },
                         .load = [](Vfs& vfs) -> std::optional<uint64_t> {
                           const auto data = read_front(vfs, kDir + "/latest", 4096);
                           if (!data.ok() || data->empty() || data->front() != '/')
                             return std::nullopt;
                           return whole_save(vfs, *data);
                         }});
}

}  // namespace
}  // namespace shanty::ckpt
