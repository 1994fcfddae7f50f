#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "ckpt/channel.h"
#include "ckpt/vfs.h"

namespace shanty::ckpt {

// One rank's part of finding out whether all nodes see the same storage.
struct Trial {
  Vfs& vfs;  // outlives the trial
  std::string root;
  int rank = 0;
  std::string round;
  uint64_t bytes = 0;                      // of a save
  std::shared_ptr<ChannelClient> channel;  // shared with the session, which may end before
};

// Runs on a thread of its own, for as long as storage and the other ranks take. The leader's answer
// to "probed".
std::shared_future<Result<nlohmann::json>> try_storage(Trial trial);

}  // namespace shanty::ckpt
