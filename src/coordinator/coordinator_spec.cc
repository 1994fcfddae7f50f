#include "coordinator/coordinator_spec.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace shanty {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(CoordinatorSpec, run_dir, host, port, tls, token,
                                                parent_pid, replaceable, node_count, max_restarts,
                                                restart_window_s, restart_on_exit, join_limit_s,
                                                stop_limit_s, agent_grace_s, master_addr,
                                                master_port, recovering, stop_reason, stop_signal,
                                                stop_signals)

// MessagePack, because a path may hold bytes that JSON text cannot say.
std::string encode_coordinator_spec(const CoordinatorSpec& spec) {
  std::string out;
  nlohmann::json::to_msgpack(nlohmann::json(spec), out);
  return out;
}

Result<CoordinatorSpec> decode_coordinator_spec(std::string_view text) {
  try {
    return nlohmann::json::from_msgpack(text).get<CoordinatorSpec>();
  } catch (const nlohmann::json::exception& e) {
    return Error{fmt::format("reading the coordinator's spec: {}", e.what())};
  }
}

}  // namespace shanty
