#include "ckpt/trial.h"

#include <thread>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "ckpt/limits.h"
#include "os/process.h"
#include "text/json_fields.h"

namespace shanty::ckpt {
namespace {

using nlohmann::json;

Status see(const Trial& trial, const json& probe) {
  const std::string path = json_string(probe, "path");
  const std::string content = json_string(probe, "content");
  const TimePoint deadline = system_clock().now() + kAppearLimit;
  while (true) {
    const auto file = trial.vfs.open(path, {});
    std::string there(content.size(), '\0');
    if (file.ok() && (*file)->read_at(0, there.data(), there.size()).ok() && there == content) {
      break;
    }
    // Without a network file system in between there is nothing to wait for.
    const auto root = trial.vfs.info(trial.root);
    if (!root.ok() || !root->exists || system_clock().now() >= deadline) {
      return Error{fmt::format("{} that rank 0 wrote is not there", path)};
    }
    std::this_thread::sleep_for(kAppearPoll);
  }
  if (trial.rank == 0) return {};
  const auto file =
      TRY(trial.vfs.open(json_string(probe, "mine"), {.create = true, .write = true}));
  TRY_STATUS(file->write_at(0, content));
  TRY_STATUS(file->sync());
  return file->close();
}

Result<json> run(const Trial& trial) {
  const json probe = TRY(ask_leader(*trial.channel, "probe", trial.round, "", kAllRanksLimit));
  const Status seen = see(trial, probe);
  const json outcome{{"bytes", trial.bytes},
                     {"node", host_name()},
                     {"mine", json_string(probe, "mine")},
                     {"error", seen.ok() ? "" : seen.error().message}};
  return ask_leader(*trial.channel, "probed", trial.round, print_json(outcome), kAllRanksLimit);
}

}  // namespace

std::shared_future<Result<json>> try_storage(Trial trial) {
  std::promise<Result<json>> promise;
  auto outcome = promise.get_future().share();
  std::thread([trial = std::move(trial), promise = std::move(promise)]() mutable {
    promise.set_value(run(trial));
  }).detach();
  return outcome;
}

}  // namespace shanty::ckpt
