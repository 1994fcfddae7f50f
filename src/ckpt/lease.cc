#include "ckpt/lease.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
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

std::unique_ptr<Lease> Lease::take(Vfs& vfs, const std::string& checkpoint_dir) {
  std::unique_ptr<Lease> lease(new Lease(vfs, checkpoint_dir, make_owner()));
  const auto file = vfs.open(lease->path_, {.create = true, .write = true});
  if (!file.ok() || !(*file)->close().ok()) return nullptr;
  lease->thread_ = std::thread([raw = lease.get()] { raw->refresh(); });
  return lease;
}

Lease::Lease(Vfs& vfs, std::string directory, std::string owner)
    : vfs_(vfs),
      directory_(std::move(directory)),
      owner_(std::move(owner)),
      path_(path(next_expiry())) {}

Lease::~Lease() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
  discard(vfs_.remove_file(path_), "it expires by itself");
}

std::string Lease::path(int64_t expires_unix_s) const {
  return join_path(directory_, lease_name(expires_unix_s, owner_));
}

void Lease::refresh() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kLeaseRefresh, [this] { return ended_; })) {
    std::string later = path(next_expiry());
    if (vfs_.rename(path_, later).ok()) path_ = std::move(later);
  }
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
