#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "ckpt/vfs.h"

namespace shanty::ckpt {

// Rank 0's part: decides where each save goes, commits it when every rank has written, and which
// checkpoint all ranks load. One for each generation of a job and root. The questions:
//
//   dir       key step.number          -> {"step","generation","attempt","path"}
//   receipt   key step.number          -> {"directory","note"}, once committed; an error when not
//   fail      key step.number          -> "", and the attempt is given up; or why it was before
//   spoil     key step.number          -> "": never committed, or taken back
//   probe     key round                -> {"path","content"}: a file that this rank must see
//   probed    key round                -> {"findings"}, once all ranks have
//   copied    key step.generation.number -> {"ranks"}, likewise: whose slots may be copied; an
//   error
//                                         when one said {"failed":true}
//   find      key round                ->
//   {"source","directory","step","generation","holders","findings"}, likewise loaded    key round
//   -> {"all_ok"}, likewise
class Leader {
 public:
  struct Options {
    std::string root;
    std::string run;
    std::string run_dir;  // that is told of each commit, "" = none
    uint64_t generation = 0;
    int world_size = 1;
    size_t keep = 3;
    bool loopback = true;  // all ranks are on this machine: no TLS then
    // A rank whose engine has not been connected for so long fails the saves that wait for it.
    Duration lost_limit = std::chrono::seconds(30);
  };
  static Result<std::unique_ptr<Leader>> start(Vfs& vfs, Options options);
  virtual ~Leader() = default;
  virtual uint16_t port() const = 0;
  virtual const std::string& token() const = 0;
  // Its end must not take long: nothing is read back any more, so that nothing is pruned.
  virtual void hurry() = 0;
};

}  // namespace shanty::ckpt
