#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <sys/types.h>

#include "base/budget.h"
#include "base/result.h"
#include "os/fd.h"

namespace boost::asio {
class io_context;
}

namespace shanty {

// Offers the node's workers a checkpoint engine (docs/formats/checkpoint-engine.md): listens for
// it, and starts the process when the first of them knocks. Everything on the thread of `io`.
class CheckpointHost {
 public:
  // `on_started` is told the engine's process.
  CheckpointHost(boost::asio::io_context& io, std::function<void(pid_t)> on_started);
  ~CheckpointHost();

  // What goes into SHANTY_CKPT_SOCKET; "" where none can be offered.
  const std::string& socket_name() const { return name_; }
  // The engine's process, 0 while there is none. A child of this one, but no worker's.
  pid_t pid() const { return pid_; }
  // It was reaped: the next knock starts another, unless they end as fast as they are started.
  void ended();
  // No more knocks.
  void close();
  // Has the engine finish what it is writing, and blocks until it has ended, at most kFinishLimit.
  void finish();
  // What it is writing when all workers have ended; more would hold up the end of the job.
  static constexpr std::chrono::seconds kFinishLimit{60};

 private:
  void wait_for_knock();
  Status start();

  struct Listener;
  std::function<void(pid_t)> on_started_;
  std::string name_;
  std::unique_ptr<Listener> listener_;
  pid_t pid_ = 0;
  Budget starts_;
};

}  // namespace shanty
