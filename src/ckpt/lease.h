#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "base/result.h"
#include "ckpt/vfs.h"

namespace shanty::ckpt {

// Longer than a kLeaseRefresh that a hanging storage delays, and than clocks of nodes differ.
constexpr Duration kLeaseLimit = std::chrono::minutes(10);
constexpr Duration kLeaseRefresh = std::chrono::minutes(2);

// Says that a checkpoint is being read, so that nobody prunes it: an empty file in its directory
// whose name tells when it expires. Renamed to a later time by a thread of its own until the end.
class Lease {
 public:
  // To be taken before the first look into the checkpoint: what is found after that stays. nullptr
  // where nothing can be written; such a checkpoint is read without.
  static std::unique_ptr<Lease> take(Vfs& vfs, const std::string& checkpoint_dir);
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

 private:
  Lease(Vfs& vfs, std::string directory, std::string owner);
  std::string path(int64_t expires_unix_s) const;
  void refresh();

  Vfs& vfs_;
  const std::string directory_;
  const std::string owner_;
  std::string path_;
  std::mutex mutex_;  // guards `ended_`
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;
};

// ".lease-EXPIRES-HOST-PID-NONCE" of docs/formats/checkpoint.md.
std::string lease_name(int64_t expires_unix_s, std::string_view owner);

// Whether somebody reads that checkpoint: it has a lease that has not expired.
Result<bool> is_leased(Vfs& vfs, const std::string& checkpoint_dir);

}  // namespace shanty::ckpt
