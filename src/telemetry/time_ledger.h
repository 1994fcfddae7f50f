#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace shanty {

// Splits the time of a run between causes so that the parts always add up to the whole: time is
// handed out from the start to the end, each moment once.
class TimeLedger {
 public:
  struct Interval {
    int64_t from_ns = 0;
    int64_t to_ns = 0;
  };

  TimeLedger(int64_t start_ns, int64_t end_ns) : at_ns_(start_ns), end_ns_(end_ns) {}

  // Time within one of these goes to `cause` instead of the one that spend_until() names, unless
  // that is "". Not overlapping, ascending.
  void set_exception(std::string cause, std::vector<Interval> intervals) {
    exception_ = std::move(cause);
    exceptions_ = std::move(intervals);
  }
  // Gives the time up to `until_ns` to `cause`, "" = useful. Moments that are gone, or beyond the
  // end, give nothing. Returns the seconds given.
  double spend_until(int64_t until_ns, const std::string& cause);
  // Moves up to `seconds` of useful time to `cause`.
  void move_useful(double seconds, const std::string& cause);

  double seconds(const std::string& cause) const;
  double useful_s() const { return seconds(""); }

 private:
  double overlap_s(int64_t from_ns, int64_t to_ns) const;

  int64_t at_ns_;
  int64_t end_ns_;
  std::string exception_;
  std::vector<Interval> exceptions_;
  std::map<std::string, double> seconds_;
};

}  // namespace shanty
