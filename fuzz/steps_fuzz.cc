#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "telemetry/report.h"
#include "telemetry/steps_file.h"

namespace {

// Takes the bytes as records of two generations, each with a right checksum.
std::vector<shanty::RankSteps> records_from(std::string_view bytes) {
  std::vector<shanty::RankSteps> steps(2);
  steps[0].generation = 1;
  steps[1].generation = 2;
  for (size_t i = 0; bytes.size() >= sizeof(shanty::StepRecord); ++i) {
    shanty::StepRecord record;
    std::memcpy(&record, bytes.data(), sizeof(record));
    char encoded[shanty::kStepsRecordBytes];
    shanty::encode_step_record(record, encoded);
    const auto decoded = shanty::decode_step_record({encoded, sizeof(encoded)});
    if (!decoded) std::abort();
    steps[i % 2].records.push_back(*decoded);
    bytes.remove_prefix(sizeof(record));
  }
  return steps;
}

}  // namespace

// Whatever a steps file holds, the account of the run adds up.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  shanty::decode_steps_header(bytes);
  shanty::decode_step_record(bytes);
  shanty::ReportInput input;
  input.info.started_unix_ns = 1;
  input.now_unix_ns = 1'000'000'000'000;
  input.running = size % 2 == 0;
  input.steps = records_from(bytes);
  const shanty::Report report = shanty::account(input);
  double sum = report.useful_time_s;
  for (const shanty::ReportLoss& loss : report.losses) sum += loss.seconds;
  const bool adds_up = std::abs(sum - report.wall_time_s) <= 1e-6 * (1 + report.wall_time_s);
  if (!adds_up || report.useful_time_s < 0) std::abort();
  return 0;
}
