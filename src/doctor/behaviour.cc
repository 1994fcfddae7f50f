#include "doctor/behaviour.h"

#include <array>

namespace shanty {
namespace {

constexpr std::string_view kEchoTypes[] = {"DistBackendError",
                                           "DistNetworkError",
                                           "DistStoreError",
                                           "ChildFailedError",
                                           "SignalException",
                                           "RendezvousConnectionError",
                                           "RendezvousTimeoutError",
                                           "RendezvousClosedError",
                                           "RendezvousGracefulExitError",
                                           "ConnectionResetError",
                                           "BrokenPipeError",
                                           "EOFError",
                                           "ActorDiedError",
                                           "RayActorError",
                                           "RayTaskError",
                                           "CalledProcessError",
                                           "ProcessExitedException",
                                           "ProcessRaisedException",
                                           "TrainingFailedError",
                                           "TimeoutError",
                                           "KeyboardInterrupt",
                                           "SystemExit"};
constexpr std::string_view kEchoTexts[] = {"NCCL",
                                           "nccl",
                                           "Gloo",
                                           "gloo",
                                           "c10d",
                                           "onnection closed",
                                           "onnection reset",
                                           "roken pipe",
                                           "imed out",
                                           "timeout",
                                           "Timeout",
                                           "socket",
                                           "Socket",
                                           "store->get",
                                           "TCPStore",
                                           "rendezvous",
                                           "closed by peer",
                                           "onnection refused",
                                           "monitoredBarrier",
                                           "ProcessGroup",
                                           "process group",
                                           "worker(s)",
                                           "DataLoader worker (pid",
                                           "Wait timeout",
                                           "all gather",
                                           "client has failed",
                                           "unhandled system error",
                                           "unhandled cuda error"};

template <size_t N>
bool contains_any(std::string_view text, const std::string_view (&words)[N]) {
  for (const std::string_view word : words) {
    if (text.find(word) != text.npos) return true;
  }
  return false;
}

std::string_view text_of_doing(const std::string& frame, Doing& doing) {
  if (frame.find("_try_get_data") != frame.npos || frame.find("dataloader") != frame.npos ||
      frame.find("torch/utils/data") != frame.npos) {
    doing = Doing::kLoading;
    return "waiting for its data loader";
  }
  if (frame.find("ncclAllReduce") != frame.npos || frame.find("ncclGroupEnd") != frame.npos ||
      frame.find("ncclCommInitRank") != frame.npos) {
    doing = Doing::kInNccl;
    return "inside a call of NCCL";
  }
  for (const std::string_view word :
       {"save", "checkpoint", "evaluat", "validat", "tokeniz", "compile", "inductor", "download"}) {
    if (frame.find(word) != frame.npos) {
      doing = Doing::kBusy;
      return word;
    }
  }
  return "";
}

}  // namespace

bool is_own_exception(const Record& exception) {
  const std::string_view type = exception.get("type");
  for (const std::string_view echo : kEchoTypes) {
    if (type == echo) return false;
  }
  return !contains_any(exception.get("what"), kEchoTexts);
}

bool waits_for_data(const StackFact& stack) {
  bool queue = false;
  for (const std::string& frame : stack.frames) {
    if (frame.find("_try_get_data") != frame.npos) return true;
    queue |= frame.find("(queue.py:") != frame.npos ||
             frame.find("multiprocessing/queues.py") != frame.npos;
    if (queue && frame.starts_with("__next__ (")) return true;
  }
  return false;
}

Behaviour behaviour_of(const Case& of, int rank) {
  Behaviour out;
  for (const StackFact& stack : of.facts().stacks) {
    if (stack.rank != rank) continue;
    if (waits_for_data(stack)) {
      return {.doing = Doing::kLoading,
              .line = nullptr,
              .stack = &stack,
              .what = "waiting for its data loader"};
    }
    for (const std::string& frame : stack.frames) {
      Doing doing = Doing::kUnknown;
      const std::string_view what = text_of_doing(frame, doing);
      if (doing == Doing::kUnknown) continue;
      return {.doing = doing, .line = nullptr, .stack = &stack, .what = std::string(what)};
    }
  }
  for (const Record* record : of.all({"exception", "killed", "sigkill", "segfault", "terminate",
                                      "worker_failed", "evicted", "disruption", "caught_term"})) {
    if (record->rank != rank) continue;
    if (record->event == "exception" && !is_own_exception(*record)) continue;
    return {.doing = Doing::kFailed, .line = record, .stack = nullptr, .what = record->text};
  }
  if (const Record* left = of.last_of(rank, {"exit_zero"})) {
    return {.doing = Doing::kLeft, .line = left, .stack = nullptr, .what = left->text};
  }
  const Record* last = of.last_of(rank, {"busy", "finished", "step"});
  if (!last) return out;
  out.line = last;
  out.what = last->get("what");
  if (last->event == "busy") out.doing = Doing::kBusy;
  if (last->event == "finished") out.doing = Doing::kFinished;
  return out;
}

}  // namespace shanty
