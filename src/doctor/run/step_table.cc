#include "doctor/run/step_table.h"

#include <algorithm>
#include <map>

namespace shanty {
namespace {

double seconds(uint32_t us) { return us * 1e-6; }

StepTimes times_of(const StepRecord& r) {
  StepTimes t{.step = seconds(r.step_us),
              .data = seconds(r.data_us),
              .forward = seconds(r.forward_us),
              .sync = seconds(r.backward_us) + seconds(r.collective_us),
              .backward = seconds(r.backward_us),
              .collective = seconds(r.collective_us),
              .optimizer = seconds(r.optimizer_us),
              .checkpoint = seconds(r.checkpoint_us)};
  t.other = std::max(0.0, t.step - t.data - t.forward - t.sync - t.optimizer - t.checkpoint);
  return t;
}

}  // namespace

StepTable step_table(const GenerationSteps& steps) {
  StepTable out;
  for (const RankSeries& series : steps.ranks) out.ranks.push_back(series.rank);
  struct Row {
    std::vector<StepTimes> times;
    int64_t end_unix_ns = 0;
    size_t seen = 0;
  };
  std::map<uint64_t, Row> rows;
  for (size_t i = 0; i < steps.ranks.size(); ++i) {
    const std::vector<StepRecord>& records = steps.ranks[i].records;
    for (size_t k = std::min(kWarmUpSteps, records.size()); k < records.size(); ++k) {
      if (records[k].only_counted() || records[k].step_us == 0) continue;
      Row& row = rows[records[k].step];
      if (row.seen != i) continue;  // an earlier rank has not timed it
      row.times.push_back(times_of(records[k]));
      row.end_unix_ns = records[k].end_unix_ns;
      ++row.seen;
    }
  }
  for (auto& [step, row] : rows) {
    if (row.seen != out.ranks.size()) continue;
    out.steps.push_back(step);
    out.end_unix_ns.push_back(row.end_unix_ns);
    out.rows.push_back(std::move(row.times));
  }
  return out;
}

}  // namespace shanty
