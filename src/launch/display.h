#pragma once

#include <memory>
#include <thread>

#include "base/clock.h"
#include "launch/run_config.h"
#include "run/run_dir.h"

namespace shanty {

// The live view of `shanty run`: a reader of the run directory on a thread of its own, so that a
// terminal that does not take output never delays the supervision of the job. The workers' stdout
// goes to stdout and their stderr to stderr; what shanty has to say goes to stderr, or with --json
// everything to stdout as JSON lines.
class Display {
 public:
  Display(const RunConfig& config, const RunDir& run);
  ~Display();  // without finish(): stops at once
  Display(const Display&) = delete;
  Display& operator=(const Display&) = delete;

  // Shows all that is left and returns; gives up once nothing was taken for `limit`.
  void finish(Duration limit);

 private:
  class View;
  struct Shared;

  std::shared_ptr<Shared> shared_;  // with the thread, which outlives this when it is given up
  std::thread thread_;
};

}  // namespace shanty
