#pragma once

// For tests only: a file system in memory that knows what a power cut may leave of it.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "ckpt/vfs.h"

namespace shanty::ckpt {

// Picks among the outcomes that a power cut may have.
class Chooser {
 public:
  virtual ~Chooser() = default;
  virtual size_t choose(size_t outcomes) = 0;  // below `outcomes`
  Rng& rng() { return rng_; }

 protected:
  explicit Chooser(uint64_t seed) : rng_(seed) {}

 private:
  Rng rng_;
};

class RandomChooser : public Chooser {
 public:
  explicit RandomChooser(uint64_t seed) : Chooser(seed) {}
  size_t choose(size_t outcomes) override { return rng().below(outcomes); }
};

// All combinations, one after the other: while (c.next()) { ... }.
class EveryChooser : public Chooser {
 public:
  explicit EveryChooser(uint64_t seed) : Chooser(seed) {}
  // Goes on to the next combination; false after the last.
  bool next() {
    position_ = 0;
    if (!started_) return started_ = true;
    while (!path_.empty() && path_.back().first + 1 == path_.back().second) path_.pop_back();
    if (path_.empty()) return false;
    ++path_.back().first;
    return true;
  }
  size_t choose(size_t outcomes) override {
    if (position_ == path_.size()) path_.emplace_back(0, outcomes);
    return path_[position_++].first;
  }

 private:
  bool started_ = false;
  size_t position_ = 0;
  std::vector<std::pair<size_t, size_t>> path_;  // what was chosen, of how many
};

enum class Fault {
  kNone,
  kEio,
  kEnospc,
  kEdquot,
  kEstale,
  kShortWrite,     // half of a write is done, then ENOSPC; other operations: ENOSPC
  kDoneButFailed,  // the operation takes effect and reports EIO, as over NFS
};

// What a file system promises, and no more: the content of a file is durable by its sync, an entry
// of a directory by that of the directory. After a power cut an unsynced file has any mixture, by
// blocks, of old, new and zero bytes and any size in between; of the unsynced changes to a
// directory any subset is there. A rename within a directory is done, not done, or (of a file) has
// left both names; one between directories may also have lost the file. A failed sync leaves the
// new bytes readable, marks them clean and does not write them, as Linux does.
class ModelVfs : public Vfs {
 public:
  ModelVfs() : root_(std::make_shared<Node>(true)) {}

  // Called before each operation that changes something, but not for operations within itself.
  std::function<void()> before_change;
  // Asked for each operation by its number, counted from 0.
  std::function<Fault(size_t)> fault;
  size_t operations() const { return operations_; }

  // What a power cut at this moment may leave, everything in it durable.
  std::unique_ptr<ModelVfs> after_power_cut(Chooser& chooser) const {
    auto out = std::make_unique<ModelVfs>();
    std::map<const Node*, NodePtr> made;
    out->root_ = survive(root_, chooser, made);
    return out;
  }

  // A hash of all names and contents.
  uint64_t fingerprint() const { return fingerprint_of(*root_); }

  Result<std::unique_ptr<VfsFile>> open(const std::string& path, OpenOptions options) override {
    const Fault f = begin(options.create);
    if (fails(f)) return error(f, "opening " + path);
    const auto [parent, name] = split(path);
    if (parent == nullptr) return Error{"opening " + path + ": No such file or directory"};
    const auto it = parent->now.find(name);
    if (options.create) {
      if (it != parent->now.end()) return Error{"creating " + path + ": File exists"};
      NodePtr node = std::make_shared<Node>(false);
      change(*parent, {{name, node}});
      if (f == Fault::kDoneButFailed) return error(f, "creating " + path);
      return std::unique_ptr<VfsFile>(std::make_unique<File>(*this, node, path));
    }
    if (it == parent->now.end()) return Error{"opening " + path + ": No such file or directory"};
    if (it->second->is_directory) return Error{"opening " + path + ": Is a directory"};
    if (!it->second->link.empty()) return Error{"opening " + path + ": a link"};
    return std::unique_ptr<VfsFile>(std::make_unique<File>(*this, it->second, path));
  }

  Result<FileInfo> info(const std::string& path) override {
    const Fault f = begin(false);
    if (f != Fault::kNone) return error(f, "looking at " + path);
    const NodePtr node = find(path);
    if (node == nullptr) return FileInfo{};
    return FileInfo{
        .exists = true, .is_directory = node->is_directory, .size = node->data->bytes.size()};
  }

  Result<std::vector<std::string>> list(const std::string& directory) override {
    const Fault f = begin(false);
    if (f != Fault::kNone) return error(f, "listing " + directory);
    const NodePtr node = find(directory);
    if (node == nullptr) return Error{"listing " + directory + ": No such file or directory"};
    std::vector<std::string> names;
    for (const auto& [name, child] : node->now) names.push_back(name);
    return names;
  }

  Status make_directory(const std::string& path) override {
    const auto place = split(path);
    return apply("making directory " + path, [&]() -> Status {
      const auto& [parent, name] = place;
      if (parent == nullptr) return Error{"making directory " + path + ": no parent"};
      if (parent->now.contains(name)) return Error{"making directory " + path + ": File exists"};
      change(*parent, {{name, std::make_shared<Node>(true)}});
      return {};
    });
  }

  Status rename(const std::string& from, const std::string& to) override {
    return apply("renaming " + from, [&]() -> Status {
      const auto [from_parent, from_name] = split(from);
      const auto [to_parent, to_name] = split(to);
      if (from_parent == nullptr || to_parent == nullptr || !from_parent->now.contains(from_name)) {
        return Error{"renaming " + from + " to " + to + ": No such file or directory"};
      }
      const NodePtr node = from_parent->now.at(from_name);
      const auto there = to_parent->now.find(to_name);
      if (there != to_parent->now.end() &&
          (there->second->is_directory ? !there->second->now.empty() : node->is_directory)) {
        return Error{"renaming " + from + " to " + to + ": File exists"};
      }
      if (from_parent == to_parent) {
        change(*to_parent, {{to_name, node}, {from_name, nullptr}});
      } else {
        change(*to_parent, {{to_name, node}});
        change(*from_parent, {{from_name, nullptr}});
      }
      return {};
    });
  }

  Status remove_file(const std::string& path) override {
    return apply("removing " + path, [&]() -> Status { return remove(path, false); });
  }

  Status remove_directory(const std::string& path) override {
    return apply("removing directory " + path, [&]() -> Status { return remove(path, true); });
  }

  Status hard_link(const std::string& from, const std::string& to) override {
    return apply("linking " + from, [&]() -> Status {
      const NodePtr node = find(from);
      const auto [parent, name] = split(to);
      if (node == nullptr || parent == nullptr || parent->now.contains(name)) {
        return Error{"linking " + from + " to " + to};
      }
      change(*parent, {{name, node}});
      return {};
    });
  }

  Status replace_link(const std::string& path, const std::string& text) override {
    return apply("linking " + path, [&]() -> Status {
      const auto [parent, name] = split(path);
      if (parent == nullptr) return Error{"linking " + path + ": no parent"};
      NodePtr node = std::make_shared<Node>(false);
      node->link = text;
      change(*parent, {{name + ".tmp-0", node}});
      change(*parent, {{name, node}, {name + ".tmp-0", nullptr}});
      return {};
    });
  }

  Status sync_directory(const std::string& path) override {
    return apply("syncing directory " + path, [&]() -> Status {
      const NodePtr node = find(path);
      if (node == nullptr) return Error{"syncing directory " + path + ": none"};
      node->durable = node->now;
      node->pending.clear();
      return {};
    });
  }

 private:
  struct Node;
  using NodePtr = std::shared_ptr<Node>;  // shared: names, open files and durable entries keep it
  using Entries = std::map<std::string, NodePtr>;
  struct Change {
    std::string name;
    NodePtr node;  // nullptr: the name goes
  };

  // The content of a file, never changed, so that the states after power cuts share it.
  struct Blob {
    std::string bytes;
    uint64_t hash;
  };
  using BlobPtr = std::shared_ptr<const Blob>;
  static BlobPtr blob(std::string bytes) {
    const uint64_t hash = std::hash<std::string>{}(bytes);
    return std::make_shared<const Blob>(Blob{std::move(bytes), hash});
  }
  static const BlobPtr& empty_blob() {
    static const BlobPtr empty = blob("");
    return empty;
  }

  struct Node {
    explicit Node(bool directory) : is_directory(directory) {}
    bool is_directory;
    std::string link;
    BlobPtr data = empty_blob();
    BlobPtr durable_data = empty_blob();
    bool sync_failed = false;  // what is in `data` counts as clean and is not written any more
    Entries now;
    Entries durable;
    std::vector<std::vector<Change>> pending;
  };

  class File : public VfsFile {
   public:
    File(ModelVfs& vfs, NodePtr node, std::string path)
        : vfs_(vfs), node_(std::move(node)), path_(std::move(path)) {}

    Status write_at(uint64_t offset, std::string_view bytes) override {
      const Fault f = vfs_.begin(true);
      if (f == Fault::kShortWrite) bytes = bytes.substr(0, bytes.size() / 2);
      if (f == Fault::kNone || f == Fault::kShortWrite || f == Fault::kDoneButFailed) {
        std::string data = node_->data->bytes;
        if (data.size() < offset + bytes.size()) data.resize(offset + bytes.size());
        std::copy(bytes.begin(), bytes.end(), data.begin() + static_cast<long>(offset));
        node_->data = blob(std::move(data));
      }
      if (f != Fault::kNone) return error(f, "writing " + path_);
      return {};
    }

    Result<size_t> read_at(uint64_t offset, char* out, size_t size) override {
      const Fault f = vfs_.begin(false);
      if (f != Fault::kNone) return error(f, "reading " + path_);
      if (offset >= node_->data->bytes.size()) return size_t{0};
      return node_->data->bytes.copy(out, size, offset);
    }

    Status truncate(uint64_t size) override {
      return vfs_.apply("cutting " + path_, [&]() -> Status {
        std::string data = node_->data->bytes;
        data.resize(size);
        node_->data = blob(std::move(data));
        return {};
      });
    }

    Status allocate(uint64_t size) override {
      return vfs_.apply("making room for " + path_, [&]() -> Status {
        std::string data = node_->data->bytes;
        data.resize(std::max<size_t>(data.size(), size));
        node_->data = blob(std::move(data));
        return {};
      });
    }

    Status sync() override {
      const Fault f = vfs_.begin(true);
      if (f == Fault::kNone || f == Fault::kDoneButFailed) {
        if (!node_->sync_failed) node_->durable_data = node_->data;
      } else {
        node_->sync_failed = true;
      }
      if (f != Fault::kNone) return error(f, "syncing " + path_);
      return {};
    }

    Status close() override {
      const Fault f = vfs_.begin(false);
      if (f != Fault::kNone) return error(f, "closing " + path_);
      return {};
    }

   private:
    ModelVfs& vfs_;
    NodePtr node_;
    std::string path_;
  };

  static bool fails(Fault f) { return f != Fault::kNone && f != Fault::kDoneButFailed; }

  static Error error(Fault f, const std::string& what) {
    switch (f) {
      case Fault::kNone:
      case Fault::kEio:
      case Fault::kDoneButFailed:
        return errno_error(what, EIO);
      case Fault::kEnospc:
      case Fault::kShortWrite:
        return errno_error(what, ENOSPC);
      case Fault::kEdquot:
        return errno_error(what, EDQUOT);
      case Fault::kEstale:
        return errno_error(what, ESTALE);
    }
    return errno_error(what, EIO);
  }

  Fault begin(bool changes) {
    if (in_callback_) return Fault::kNone;
    if (changes && before_change) {
      in_callback_ = true;
      before_change();
      in_callback_ = false;
    }
    const size_t number = operations_++;
    return fault ? fault(number) : Fault::kNone;
  }

  template <typename Act>
  Status apply(const std::string& what, Act act) {
    const Fault f = begin(true);
    if (fails(f)) return error(f, what);
    const Status done = act();
    if (!done.ok()) return done;
    if (f != Fault::kNone) return error(f, what);
    return {};
  }

  static void change(Node& directory, std::vector<Change> changes) {
    for (const Change& c : changes) {
      if (c.node == nullptr) {
        directory.now.erase(c.name);
      } else {
        directory.now[c.name] = c.node;
      }
    }
    directory.pending.push_back(std::move(changes));
  }

  Status remove(const std::string& path, bool directory) {
    const auto [parent, name] = split(path);
    const NodePtr node = find(path);
    if (node == nullptr || node->is_directory != directory || !node->now.empty()) {
      return Error{"removing " + path + ": not there, not empty or of the other kind"};
    }
    change(*parent, {{name, nullptr}});
    return {};
  }

  NodePtr find(std::string_view path) const {
    NodePtr node = root_;
    while (node != nullptr && !path.empty()) {
      path.remove_prefix(1);
      const size_t slash = std::min(path.find('/'), path.size());
      const std::string name(path.substr(0, slash));
      path.remove_prefix(slash);
      if (name.empty() || name == ".") continue;
      const auto it = node->now.find(name);
      node = it == node->now.end() ? nullptr : it->second;
    }
    return node;
  }

  std::pair<NodePtr, std::string> split(const std::string& path) const {
    const size_t slash = path.rfind('/');
    NodePtr parent = find(std::string_view(path).substr(0, slash));
    if (parent != nullptr && !parent->is_directory) parent = nullptr;
    return {parent, path.substr(slash + 1)};
  }

  static NodePtr survive(const NodePtr& node, Chooser& chooser,
                         std::map<const Node*, NodePtr>& made) {
    NodePtr& out = made[node.get()];
    if (out != nullptr) return out;
    out = std::make_shared<Node>(node->is_directory);
    const NodePtr result = out;
    if (!node->is_directory) {
      result->link = node->link;
      result->data = result->durable_data = surviving_data(*node, chooser);
      return result;
    }
    Entries entries = node->durable;
    for (const auto& changes : node->pending) {
      // Of a renamed file both names may be there; a directory never has two.
      const bool in_parts = changes.size() == 2 && !changes[0].node->is_directory;
      const size_t done = in_parts ? chooser.choose(3) : chooser.choose(2) * changes.size();
      for (size_t i = 0; i < done; ++i) {
        if (changes[i].node == nullptr) {
          entries.erase(changes[i].name);
        } else {
          entries[changes[i].name] = changes[i].node;
        }
      }
    }
    for (const auto& [name, child] : entries) result->now[name] = survive(child, chooser, made);
    result->durable = result->now;
    return result;
  }

  static BlobPtr surviving_data(const Node& node, Chooser& chooser) {
    const std::string& before = node.durable_data->bytes;
    const std::string& after = node.data->bytes;
    if (node.durable_data == node.data || before == after) return node.data;
    switch (chooser.choose(5)) {
      case 0:
        return node.durable_data;
      case 1:
        return node.data;
      case 2:
        return blob(std::string(after.size(), '\0'));
      case 3:
        return blob(after.substr(0, chooser.rng().below(after.size() + 1)));
      default:
        return blob(mixture(before, after, chooser.rng()));
    }
  }

  static std::string mixture(const std::string& before, const std::string& after, Rng& rng) {
    constexpr size_t kBlock = 512;
    std::string out(std::max(before.size(), after.size()), '\0');
    for (size_t at = 0; at < out.size(); at += kBlock) {
      const uint64_t kind = rng.below(3);
      const std::string& from = kind == 0 ? before : after;
      if (kind == 2 || at >= from.size()) continue;
      from.copy(out.data() + at, kBlock, at);
    }
    const size_t low = std::min(before.size(), after.size());
    out.resize(rng.chance(0.5) ? after.size() : low + rng.below(out.size() - low + 1));
    return out;
  }

  static uint64_t fingerprint_of(const Node& node) {
    uint64_t hash = node.data->hash ^ std::hash<std::string>{}(node.link) * 3;
    for (const auto& [name, child] : node.now) {
      hash = hash * 0x9e3779b97f4a7c15 + std::hash<std::string>{}(name);
      hash = (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9 + fingerprint_of(*child);
    }
    return hash;
  }

  NodePtr root_;
  size_t operations_ = 0;
  bool in_callback_ = false;
};

}  // namespace shanty::ckpt
