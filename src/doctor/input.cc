#include "doctor/input.h"

#include <algorithm>

namespace shanty {
namespace {

constexpr size_t kPastedBytes = 2048;

bool has(std::string_view head, std::string_view text) { return head.find(text) != head.npos; }

bool is_flight_recorder(std::string_view head) {
  const bool pickle = head.size() > 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5;
  const bool json = head.starts_with('{');
  return (pickle || json) && (has(head, "pg_config") || has(head, "pg_status") ||
                              (has(head, "entries") && has(head, "nccl_version")));
}

bool is_ras_json(std::string_view head) {
  const std::string_view start = head.substr(0, kPastedBytes);
  return start.find_first_of('{') != start.npos && has(start, "\"communicators_count\"") &&
         has(head, "\"missing_ranks_count\"");
}

bool is_kubernetes(std::string_view head) {
  return (has(head, "apiVersion:") && has(head, "kind:")) ||
         (head.find_first_not_of(" \n\r\t") != head.npos &&
          head[head.find_first_not_of(" \n\r\t")] == '{' && has(head, "\"apiVersion\"") &&
          has(head, "\"kind\""));
}

// py-spy's threads without what it prints before them.
bool is_pasted_stack(std::string_view head) {
  return has(head, "Thread ") &&
         (has(head, "(idle): \"") || has(head, "(active): \"") || has(head, "(active+gil): \""));
}

// `kubectl describe`, maybe below the command that somebody typed.
bool is_describe(std::string_view head) {
  size_t at = 0;
  if (!head.starts_with("Name:")) {
    at = head.substr(0, kPastedBytes).find("\nName:");
    if (at == head.npos || !has(head.substr(0, at), "describe ")) return false;
  }
  const std::string_view rest = head.substr(at);
  return has(rest, "\nNamespace:") || has(rest, "\nRoles:");
}

}  // namespace

std::string_view input_kind_name(InputKind kind) {
  switch (kind) {
    case InputKind::kLog:
      return "log";
    case InputKind::kKubernetesYaml:
      return "Kubernetes objects";
    case InputKind::kDescribe:
      return "kubectl describe";
    case InputKind::kEventTable:
      return "events";
    case InputKind::kNvidiaSmi:
      return "nvidia-smi";
    case InputKind::kTopologyMatrix:
      return "nvidia-smi topo -m";
    case InputKind::kKernelLog:
      return "kernel log";
    case InputKind::kNcclTopology:
      return "NCCL topology";
    case InputKind::kNcclTests:
      return "nccl-tests";
    case InputKind::kIperf:
      return "iperf3";
    case InputKind::kPySpy:
      return "py-spy dump";
    case InputKind::kRasJson:
      return "ncclras";
    case InputKind::kFlightRecorder:
      return "flight recorder dump";
    case InputKind::kRunDirectory:
      return "run directory";
  }
  return "";
}

InputKind sniff_input(std::string_view name, std::string_view head) {
  head = head.substr(0, kSniffBytes);
  if (is_ras_json(head)) return InputKind::kRasJson;
  if (is_flight_recorder(head)) return InputKind::kFlightRecorder;
  if (is_kubernetes(head)) return InputKind::kKubernetesYaml;
  if (is_describe(head)) return InputKind::kDescribe;
  if (head.starts_with("LAST SEEN") || (head.starts_with("NAMESPACE") && has(head, "LAST SEEN"))) {
    return InputKind::kEventTable;
  }
  if (has(head, "\tGPU0") || (has(head, "GPU0") && has(head, "CPU Affinity"))) {
    return InputKind::kTopologyMatrix;
  }
  if (has(head, "| NVIDIA-SMI ") || has(head, "==NVSMI LOG==")) return InputKind::kNvidiaSmi;
  if (has(head, "<system version=") || has(head, "<cpu numaid=")) return InputKind::kNcclTopology;
  if (has(head, "# nThread ") || has(head, "# nccl-tests") || has(head, "Avg bus bandwidth")) {
    return InputKind::kNcclTests;
  }
  if ((has(head, "Connecting to host") && has(head, "[ ID] Interval")) ||
      (head.starts_with('{') && has(head, "\"iperf"))) {
    return InputKind::kIperf;
  }
  if (has(head, "Python v") && has(head, "\nThread ") && has(head, "Process ")) {
    return InputKind::kPySpy;
  }
  if (is_pasted_stack(head.substr(0, kPastedBytes))) return InputKind::kPySpy;
  const std::string_view file = name.substr(name.rfind('/') == name.npos ? 0 : name.rfind('/') + 1);
  if (file.find("dmesg") != file.npos) return InputKind::kKernelLog;
  return InputKind::kLog;
}

}  // namespace shanty
