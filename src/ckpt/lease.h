#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/result.h"
#include "ckpt/vfs.h"

namespace shanty::ckpt {

// Longer than a kLeaseRefresh that a hanging storage delays, and than clocks of nodes differ.
constexpr Duration kLeaseLimit = std::chrono::minutes(10);
constexpr Duration kLeaseRefresh = std::chrono::minutes(2);

// How long the end of a lease waits for storage; what hangs for longer ends without it.
constexpr Duration kLeaseEndLimit = std::chrono::seconds(10);

// Says that a checkpoint is being read, so that nobody prunes it: an empty file in its directory
// whose name tells when it expires. Renamed to a later time, and removed at the end, by a thread of
// its own.
class Lease {
 public:
  // To be taken before the first look into the checkpoint: what is found after that stays. nullptr
  // where nothing can be written; such a checkpoint is read without. `vfs` outlives what hangs.
  static std::unique_ptr<Lease> take(Vfs& vfs, const std::string& checkpoint_dir,
                                     Duration end_limit = kLeaseEndLimit);
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

 private:
  struct State;
  Lease(std::shared_ptr<State> state, Duration end_limit)
      : state_(std::move(state)), end_limit_(end_limit) {}
  static void keep(State& state);

  std::shared_ptr<State> state_;  // shared with the thread
  Duration end_limit_;
};

// ".lease-EXPIRES-HOST-PID-NONCE" of docs/formats/checkpoint.md.
std::string lease_name(int64_t expires_unix_s, std::string_view owner);

// Whether somebody reads that checkpoint: it has a lease that has not expired.
Result<bool> is_leased(Vfs& vfs, const std::string& checkpoint_dir);

}  // namespace shanty::ckpt
