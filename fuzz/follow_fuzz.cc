// What is read of a job on a cluster: objects, and the log of a pod in pieces.
#include <cstddef>
#include <cstdint>

#include <nlohmann/json.hpp>

#include "follow/agent_output.h"
#include "follow/follower.h"
#include "follow/log_tail.h"
#include "telemetry/live_line.h"
#include "text/json_fields.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace shanty::follow;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Follower follower({.job = "train", .pods = 2, .bare_pods = true});
  const shanty::TimePoint now;
  if (const auto object = shanty::parse_json(bytes)) {
    if (const auto pod = read_pod(*object)) follower.on_pod(*pod, now);
    if (const auto state = read_workload(*object)) follower.on_workload(*state, now);
    if (const auto event = read_event(*object)) follower.on_event(*event, true);
    if (const auto entry = read_queue_entry(*object)) find_place({*entry}, entry->owner_uid);
  }
  LogTail tail([&](std::string_view line) {
    const OutputLine read = read_output_line(line);
    if (read.from == OutputLine::From::kAgent) follower.on_agent_line(read.text, now);
    if (read.from == OutputLine::From::kRanks) {
      static_cast<void>(shanty::decode_live_line(read.text));
    }
    static_cast<void>(ranks_of_line(line));
    follower.on_rank_line(line);
    pull_time(line);
    pulled_image(line);
  });
  tail.feed(bytes.substr(0, size / 2));
  tail.feed(bytes.substr(size / 2));
  tail.begin_again();
  tail.feed(bytes);
  tail.finish();
  follower.on_tick(now);
  static_cast<void>(follower.summary());
  return 0;
}
