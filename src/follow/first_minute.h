#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace shanty::follow {

// Answers, from the job's own output, two of the questions of its first minute: has each rank the
// right environment, and by which network does NCCL speak. Pure.
class FirstMinute {
 public:
  // How long after the world has formed NCCL is waited for: it speaks at the first collective.
  static constexpr Duration kNcclPatience = std::chrono::seconds(60);

  // `gpus`: of the whole job; without any there is no NCCL.
  explicit FirstMinute(uint64_t gpus) : gpus_(gpus) {}
  void set_gpus(uint64_t gpus) { gpus_ = gpus; }

  // A line of the agent, without its time ("generation 1: 2 ranks on 2 nodes"). Returns answers
  // that have become known.
  std::vector<std::string> on_agent_line(std::string_view text, TimePoint now);
  // A line that a rank printed.
  std::vector<std::string> on_rank_line(std::string_view line);
  std::vector<std::string> on_tick(TimePoint now);

  // Both are answered.
  bool is_done() const { return environment_told_ && nccl_told_; }

 private:
  uint64_t gpus_;
  bool environment_told_ = false;
  bool nccl_told_ = false;
  TimePoint formed_;
  std::string network_;                            // the first that NCCL named
  std::map<std::string, std::string> interfaces_;  // "NET/IB" -> what it said
};

}  // namespace shanty::follow
