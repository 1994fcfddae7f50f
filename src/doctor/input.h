#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace shanty {

// What a file given to `doctor` is, told by its name and its first bytes.
enum class InputKind {
  kLog,             // lines of any program; read as a stream by logs/
  kKubernetesYaml,  // `kubectl get pod,event,node -o yaml` or json, one object or a list
  kDescribe,        // `kubectl describe`
  kEventTable,      // `kubectl get events`
  kNvidiaSmi,       // the table, or -q
  kTopologyMatrix,  // `nvidia-smi topo -m`
  kKernelLog,       // dmesg; read as a log
  kNcclTopology,    // XML of NCCL_TOPO_DUMP_FILE
  kNcclTests,       // all_reduce_perf and its like
  kIperf,           // iperf3, text or JSON
  kPySpy,           // py-spy dump
  kRasJson,         // ncclras --format json
  kFlightRecorder,  // a dump of one rank, pickle or JSON
  kRunDirectory,    // of `shanty run`; path is the directory
};

// "log", "flight recorder dump": for messages.
std::string_view input_kind_name(InputKind kind);

// One input that is read whole by its own reader: all kinds but logs.
struct Input {
  std::string name;  // as evidence names it: a path, or "archive.tar.gz: inner/path"
  InputKind kind = InputKind::kLog;
  std::string path;  // on disk; empty for what came from an archive, compressed, or from stdin
  // The content, decompressed. Fails when it cannot be read or is longer than `limit_bytes`.
  std::function<Result<std::string>(size_t limit_bytes)> read;
};

// `head` holds the first bytes (kSniffBytes are enough) of a file called `name`.
inline constexpr size_t kSniffBytes = 16 * 1024;
InputKind sniff_input(std::string_view name, std::string_view head);

}  // namespace shanty
