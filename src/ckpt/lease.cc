#include "ckpt/lease.h"

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <unistd.h>

#include <fmt/format.h>

#include "base/hash.h"
#include "base/random.h"
#include "ckpt/store_files.h"
#include "os/process.h"

namespace shanty::ckpt {
namespace {

constexpr std::string_view kPrefix = ".lease-";
constexpr size_t kMaxHostBytes = 64;
constexpr size_t kNonceBytes = 8;
constexpr int64_t kNsPerS = 1'000'000'000;

int64_t now_unix_s() { return system_clock().unix_time_ns() / kNsPerS; }

int64_t next_expiry() { return now_unix_s() + kLeaseLimit / std::chrono::seconds(1); }

// Who holds it, for people; fit for a file's name.
std::string make_owner() {
  std::string host = host_name().substr(0, kMaxHostBytes);
  std::replace(host.begin(), host.end(), '/', '_');
  return fmt::format("{}-{}-{}", host, ::getpid(), hex(secure_random_bytes(kNonceBytes)));
}

// nullopt: not the name of a lease.
std::optional<int64_t> expiry_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  int64_t expires = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), expires);
  if (error != std::errc() || end == name.data() + name.size() || *end != '-') return std::nullopt;
  return expires;
}

}  // namespace

std::string lease_name(int64_t expires_unix_s, std::string_view owner) {
  return fmt::format("{}{}-{}", kPrefix, expires_unix_s, owner);
}

struct Lease::State {
  Vfs& vfs;
  const std::string directory;
  const std::string owner;
  std::string path;  // the thread's alone, once that runs
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  bool ended = false;
  bool removed = false;

  std::string next_path() const { return join_path(directory, lease_name(next_expiry(), owner)); }
};

std::unique_ptr<Lease> Lease::take(Vfs& vfs, const std::string& checkpoint_dir,
                                   Duration end_limit) {
  const std::shared_ptr<State> state(
      new State{.vfs = vfs, .directory = checkpoint_dir, .owner = make_owner()});
  state->path = state->next_path();
  const auto file = vfs.open(state->path, {.create = true, .write = true});
  if (!file.ok() || !(*file)->close().ok()) return nullptr;
  std::thread([state] { keep(*state); }).detach();
  return std::unique_ptr<Lease>(new Lease(state, end_limit));
}

Lease::~Lease() {
  std::unique_lock lock(state_->mutex);
  state_->ended = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, end_limit_, [this] { return state_->removed; });
}

// Storage is never waited for with the mutex held.
void Lease::keep(State& state) {
  std::unique_lock lock(state.mutex);
  while (!state.changed.wait_for(lock, kLeaseRefresh, [&] { return state.ended; })) {
    lock.unlock();
    std::string later = state.next_path();
    if (state.vfs.rename(state.path, later).ok()) state.path = std::move(later);
    lock.lock();
  }
  lock.unlock();
  discard(state.vfs.remove_file(state.path), "it expires by itself");
  lock.lock();
  state.removed = true;
  state.changed.notify_all();
}

Result<bool> is_leased(Vfs& vfs, const std::string& checkpoint_dir) {
  const int64_t now = now_unix_s();
  for (const std::string& name : TRY(vfs.list(checkpoint_dir))) {
    const auto expires = expiry_of(name);
    if (expires && *expires >= now) return true;
  }
  return false;
}

}  // namespace shanty::ckpt
