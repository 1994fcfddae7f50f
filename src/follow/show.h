#pragma once

#include <string>
#include <string_view>

#include "follow/follower.h"
#include "follow/session.h"
#include "text/progress.h"

namespace shanty::follow {

// Shows a followed job: the ranks' output on stdout, all else on stderr, with a progress line on a
// terminal; or JSON lines on stdout. One thread.
class Show {
 public:
  explicit Show(const SessionOptions& options);

  void lines(const Lines& lines);
  // What the agents and ranks print.
  void rank_line(const std::string& pod, std::string_view line);
  void agent_line(const std::string& pod, std::string_view whole, std::string_view text);
  // What the cluster does with the job, before it runs.
  void waiting(const std::string& text);
  // What the agents last said of the job's steps.
  void progress(const std::string& text);
  void trouble(const std::string& text);
  void finish() { progress_.finish(); }

 private:
  void json_line(std::string_view kind, std::string_view text, const std::string& pod);

  const SessionOptions& options_;
  ProgressLine progress_;
  std::string last_trouble_;
  TimePoint next_waiting_;
};

}  // namespace shanty::follow
