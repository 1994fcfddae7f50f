#include "lint/nccl_variables.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "causes/catalogue.h"
#include "text/diagnostic.h"
#include "text/utf8.h"

namespace shanty::lint {
namespace {

// Names that NCCL 2.30 reads and that people write.
constexpr std::string_view kKnown[] = {
    "NCCL_ALGO",
    "NCCL_ALLOC_P2P_NET_LL_BUFFERS",
    "NCCL_BUFFSIZE",
    "NCCL_CHECKS_DISABLE",
    "NCCL_CHECK_POINTERS",
    "NCCL_COLLNET_ENABLE",
    "NCCL_COLLNET_NODE_THRESHOLD",
    "NCCL_COMM_BLOCKING",
    "NCCL_COMM_ID",
    "NCCL_COMM_SPLIT_SHARE_RESOURCES",
    "NCCL_CONF_FILE",
    "NCCL_CREATE_THREAD_CONTEXT",
    "NCCL_CROSS_NIC",
    "NCCL_CTA_POLICY",
    "NCCL_CUMEM_ENABLE",
    "NCCL_CUMEM_HOST_ENABLE",
    "NCCL_DEBUG",
    "NCCL_DEBUG_FILE",
    "NCCL_DEBUG_SUBSYS",
    "NCCL_DEBUG_TIMESTAMP_FORMAT",
    "NCCL_DEBUG_TIMESTAMP_LEVELS",
    "NCCL_DMABUF_ENABLE",
    "NCCL_ENV_PLUGIN",
    "NCCL_GDRCOPY_ENABLE",
    "NCCL_GIN_ENABLE",
    "NCCL_GIN_TYPE",
    "NCCL_GRAPH_DUMP_FILE",
    "NCCL_GRAPH_FILE",
    "NCCL_GRAPH_MIXING_SUPPORT",
    "NCCL_GRAPH_REGISTER",
    "NCCL_HOSTID",
    "NCCL_IB_ADAPTIVE_ROUTING",
    "NCCL_IB_ADDR_FAMILY",
    "NCCL_IB_ADDR_RANGE",
    "NCCL_IB_AR_THRESHOLD",
    "NCCL_IB_DATA_DIRECT",
    "NCCL_IB_DISABLE",
    "NCCL_IB_ECE_ENABLE",
    "NCCL_IB_FIFO_TC",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_HCA",
    "NCCL_IB_MERGE_NICS",
    "NCCL_IB_MERGE_VFS",
    "NCCL_IB_PCI_RELAXED_ORDERING",
    "NCCL_IB_PKEY",
    "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_IB_RESILIENCY_PORT_FAILOVER",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY",
    "NCCL_IB_RETRY_CNT",
    "NCCL_IB_RETURN_ASYNC_EVENTS",
    "NCCL_IB_ROCE_VERSION_NUM",
    "NCCL_IB_SL",
    "NCCL_IB_SPLIT_DATA_ON_QPS",
    "NCCL_IB_TC",
    "NCCL_IB_TIMEOUT",
    "NCCL_IB_USE_INLINE",
    "NCCL_IGNORE_CPU_AFFINITY",
    "NCCL_IGNORE_DISABLED_P2P",
    "NCCL_IGNORE_NET_MISMATCH",
    "NCCL_LAUNCH_MODE",
    "NCCL_LAUNCH_ORDER_IMPLICIT",
    "NCCL_LL128_BUFFSIZE",
    "NCCL_LL_BUFFSIZE",
    "NCCL_LOCAL_REGISTER",
    "NCCL_MAX_CTAS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MAX_P2P_NCHANNELS",
    "NCCL_MIN_CTAS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MIN_P2P_NCHANNELS",
    "NCCL_MNNVL_CLIQUE_ID",
    "NCCL_MNNVL_ENABLE",
    "NCCL_MNNVL_UUID",
    "NCCL_MULTI_RANK_GPU_ENABLE",
    "NCCL_NCHANNELS_PER_NET_PEER",
    "NCCL_NET",
    "NCCL_NET_FORCE_FLUSH",
    "NCCL_NET_GDR_C2C",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_GDR_READ",
    "NCCL_NET_MERGE_LEVEL",
    "NCCL_NET_PLUGIN",
    "NCCL_NET_SHARED_BUFFERS",
    "NCCL_NET_SHARED_COMMS",
    "NCCL_NSOCKS_PERTHREAD",
    "NCCL_NTHREADS",
    "NCCL_NVB_DISABLE",
    "NCCL_NVLS_ENABLE",
    "NCCL_NVLS_CHUNKSIZE",
    "NCCL_NVLS_NCHANNELS",
    "NCCL_OOB_NET_ENABLE",
    "NCCL_OOB_NET_IFNAME",
    "NCCL_P2P_DIRECT_DISABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_P2P_NET_CHUNKSIZE",
    "NCCL_P2P_NVL_CHUNKSIZE",
    "NCCL_P2P_PCI_CHUNKSIZE",
    "NCCL_P2P_PXN_LEVEL",
    "NCCL_P2P_USE_CUDA_MEMCPY",
    "NCCL_PROFILER_PLUGIN",
    "NCCL_PROGRESS_APPEND_OP_FREQ",
    "NCCL_PROTO",
    "NCCL_PROXY_APPEND_BATCH_SIZE",
    "NCCL_PXN_C2C",
    "NCCL_PXN_DISABLE",
    "NCCL_RAS_ADDR",
    "NCCL_RAS_ENABLE",
    "NCCL_RAS_TIMEOUT_FACTOR",
    "NCCL_REPORT_CONNECT_PROGRESS",
    "NCCL_RUNTIME_CONNECT",
    "NCCL_SET_STACK_SIZE",
    "NCCL_SET_THREAD_NAME",
    "NCCL_SHM_DISABLE",
    "NCCL_SHM_LOCALITY",
    "NCCL_SHM_MEMCPY_MODE",
    "NCCL_SHM_USE_CUDA_MEMCPY",
    "NCCL_SOCKET_FAMILY",
    "NCCL_SOCKET_IFNAME",
    "NCCL_SOCKET_INLINE",
    "NCCL_SOCKET_MIN_TASKSIZE",
    "NCCL_SOCKET_NTHREADS",
    "NCCL_SOCKET_RETRY_CNT",
    "NCCL_SOCKET_RETRY_SLEEP_MSEC",
    "NCCL_THREAD_THRESHOLDS",
    "NCCL_TOPO_DUMP_FILE",
    "NCCL_TOPO_DUMP_FILE_RANK",
    "NCCL_TOPO_FILE",
    "NCCL_TUNER_CONFIG_PATH",
    "NCCL_TUNER_PLUGIN",
    "NCCL_UID_STAGGER_RATE",
    "NCCL_UID_STAGGER_THRESHOLD",
    "NCCL_WIN_ENABLE",
    "NCCL_WORK_ARGS_BYTES",
    "NCCL_WORK_FIFO_BYTES",
    "NCCL_WARN_ENABLE_DEBUG_INFO",
};

struct Retired {
  std::string_view name;
  std::string_view successor;  // empty: there is none
  std::string_view since;
};

constexpr Retired kRetired[] = {
    {"NCCL_IB_GDR_LEVEL", "NCCL_NET_GDR_LEVEL", "2.4"},
    {"NCCL_IB_CUDA_SUPPORT", "", "2.4"},
    {"NCCL_MNNVL", "NCCL_MNNVL_ENABLE", "2.21"},
    {"NCCL_RINGS", "", "2.5"},
    {"NCCL_MAX_NRINGS", "NCCL_MAX_NCHANNELS", "2.5"},
    {"NCCL_MIN_NRINGS", "NCCL_MIN_NCHANNELS", "2.5"},
    {"NCCL_LL_THRESHOLD", "", "2.5"},
    {"NCCL_TREE_THRESHOLD", "", "2.5"},
    {"NCCL_SINGLE_RING_THRESHOLD", "", "2.5"},
    {"NCCL_LL128_THRESHOLD", "", "2.5"},
};

// Neither NCCL nor torch has ever read these.
constexpr std::string_view kNoTimeouts[] = {"NCCL_TIMEOUT", "NCCL_TIMEOUT_MS",
                                            "NCCL_TIMEOUT_SECONDS", "NCCL_SOCKET_TIMEOUT",
                                            "NCCL_WATCHDOG_TIMEOUT"};

struct Renamed {
  std::string_view name;
  std::string_view successor;
};

constexpr Renamed kTorchNames[] = {
    {"NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ASYNC_ERROR_HANDLING"},
    {"NCCL_BLOCKING_WAIT", "TORCH_NCCL_BLOCKING_WAIT"},
    {"NCCL_DESYNC_DEBUG", "TORCH_NCCL_DESYNC_DEBUG"},
    {"NCCL_ENABLE_TIMING", "TORCH_NCCL_ENABLE_TIMING"},
};

constexpr std::array kLevels = {"LOC", "PIX", "PXB", "PHB", "SYS", "SYS"};

// Switches: read as numbers, so that "true" counts as nothing.
constexpr std::string_view kSwitches[] = {
    "NCCL_IB_DISABLE",  "NCCL_P2P_DISABLE",  "NCCL_SHM_DISABLE",   "NCCL_CUMEM_ENABLE",
    "NCCL_NVLS_ENABLE", "NCCL_NET_GDR_READ", "NCCL_DMABUF_ENABLE", "NCCL_COLLNET_ENABLE",
    "NCCL_PXN_DISABLE", "NCCL_CROSS_NIC",    "NCCL_RAS_ENABLE",    "NCCL_IGNORE_CPU_AFFINITY",
};

template <typename List>
bool is_in(const List& list, std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::optional<VariableProblem> check_retired(std::string_view name) {
  for (const Retired& retired : kRetired) {
    if (retired.name != name) continue;
    const std::string instead =
        retired.successor.empty() ? "" : fmt::format("; it is {} now", retired.successor);
    return VariableProblem{
        "NCCL003", fmt::format("NCCL reads no {} from {} on{}", name, retired.since, instead),
        std::string(retired.successor), ""};
  }
  return {};
}

std::optional<VariableProblem> check_timeout(std::string_view name) {
  if (!is_in(kNoTimeouts, name)) return {};
  return VariableProblem{"NCCL003",
                         fmt::format("neither NCCL nor torch reads {}: how long ranks wait is the "
                                     "timeout of init_process_group()",
                                     name),
                         "", ""};
}

std::optional<VariableProblem> check_torch_name(std::string_view name) {
  for (const Renamed& renamed : kTorchNames) {
    if (renamed.name != name) continue;
    return VariableProblem{"NCCL004",
                           fmt::format("{} is called {} since torch 2.2", name, renamed.successor),
                           std::string(renamed.successor), ""};
  }
  return {};
}

std::optional<VariableProblem> check_spelling(std::string_view name) {
  if (is_in(kKnown, name)) return {};
  const std::string_view nearest = nearest_key(name, kKnown);
  // Plugins read names of their own: only what is a letter or two off is taken for a slip.
  const auto difference = static_cast<int64_t>(nearest.size()) - static_cast<int64_t>(name.size());
  if (nearest.empty() || difference > 1 || difference < -1) return {};
  return VariableProblem{"NCCL003",
                         fmt::format("NCCL reads no {}; is {} meant?", printable(name), nearest),
                         std::string(nearest), ""};
}

std::optional<VariableProblem> check_level(std::string_view name, std::string_view value) {
  if (name != "NCCL_NET_GDR_LEVEL" && name != "NCCL_P2P_LEVEL") return {};
  if (is_digits(value) && value.size() == 1 && value[0] <= '5') {
    const std::string_view level = kLevels[static_cast<size_t>(value[0] - '0')];
    return VariableProblem{
        "NCCL002",
        fmt::format("{}={} is the old form by number; the level is {}", name, value, level), "",
        std::string(level)};
  }
  const std::array levels = {"LOC", "NVL", "PIX", "PXB", "P2C", "PXN", "PHB", "NODE", "SYS"};
  if (value.empty() || is_in(levels, value)) return {};
  return VariableProblem{"NCCL006",
                         fmt::format("{}={} is no level; they are LOC, PIX, PXB, PHB, SYS{}", name,
                                     printable(value), name == "NCCL_P2P_LEVEL" ? ", NVL" : ""),
                         "", ""};
}

std::optional<VariableProblem> check_value(std::string_view name, std::string_view value) {
  const std::string word = lower(value);
  const bool is_word = word == "true" || word == "false" || word == "yes" || word == "no" ||
                       word == "on" || word == "off";
  if (is_word && is_in(kSwitches, name)) {
    const bool is_set = word == "true" || word == "yes" || word == "on";
    return VariableProblem{
        "NCCL006", fmt::format("{}={} is no number, so that NCCL keeps its default", name, value),
        "", is_set ? "1" : "0"};
  }
  const std::array debug_levels = {"version", "warn", "info", "abort", "trace", "none"};
  if (name == "NCCL_DEBUG" && !value.empty() && !is_in(debug_levels, word)) {
    return VariableProblem{
        "NCCL006",
        fmt::format("NCCL_DEBUG={} is no level; they are VERSION, WARN, INFO, TRACE",
                    printable(value)),
        "", ""};
  }
  return {};
}

}  // namespace

bool is_slow_path(std::string_view name, std::string_view value) {
  return value == "1" && (name == "NCCL_P2P_DISABLE" || name == "NCCL_SHM_DISABLE");
}

std::string slow_path_message(std::string_view name) {
  return fmt::format("{}=1: the GPUs of a node talk {}, even where they have a faster way", name,
                     name == "NCCL_P2P_DISABLE" ? "through the CPU's memory" : "over the network");
}

Severity VariableProblem::severity() const {
  const Cause* cause = find_cause(code);
  return cause == nullptr ? Severity::kWarning : cause->severity;
}

std::optional<VariableProblem> check_nccl_variable(std::string_view name, std::string_view value) {
  if (!name.starts_with("NCCL_")) return {};
  if (auto problem = check_torch_name(name)) return problem;
  if (auto problem = check_retired(name)) return problem;
  if (auto problem = check_timeout(name)) return problem;
  if (auto problem = check_level(name, value)) return problem;
  if (auto problem = check_value(name, value)) return problem;
  return check_spelling(name);
}

}  // namespace shanty::lint
