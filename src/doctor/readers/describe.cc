#include <charconv>

#include "doctor/readers/lines.h"
#include "doctor/readers/readers.h"
#include "text/utf8.h"

namespace shanty {
namespace {

int64_t to_number(std::string_view text, int64_t fallback) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end != text.data() ? value : fallback;
}

// One object of `kubectl describe`: what its sections say as they come.
class Describer {
 public:
  Describer(const std::string& name, ClusterFacts& facts) : name_(name), facts_(facts) {}

  void take(std::string_view line, uint64_t number) {
    const size_t colon = line.find(':');
    const std::string_view key = trimmed(line.substr(0, colon));
    const std::string value = colon == line.npos ? "" : printable(trimmed(line.substr(colon + 1)));
    const bool top = !line.empty() && line.front() != ' ' && line.front() != '\t';
    if (top && key == "Name") start(value, number);
    if (!started_) return;
    if (top) section_ = key;
    if (top && key == "Node") pod_.node = value.substr(0, value.find('/'));
    if (top && key == "Status") pod_.phase = value;
    if (top && key == "Reason") pod_.reason = value;
    if (top && key == "Message") pod_.message = value;
    if (top && key == "IP") pod_.pod_ip = value;
    if (section_ == "Allocatable" && key == "nvidia.com/gpu") {
      node_.gpus_allocatable = to_number(value, 0);
      node_.where = {name_, number, "allocatable nvidia.com/gpu: " + value};
    }
    if (section_ == "Allocatable" && top) is_node_ = true;
    if (key == "istio-proxy" || key == "linkerd-proxy") pod_.has_sidecar = true;
    if (line.find("/dev/shm from") != line.npos) pod_.shm_mounted = true;
    if (key == "Restart Count") pod_.restarts = std::max(pod_.restarts, to_number(value, 0));
    if (key == "Last State" || key == "State") state_ended_ = value == "Terminated";
    if (key == "Reason" && !top && state_ended_ && value != "Completed") {
      pod_.last_reason = value;
      pod_.where = {name_, number, "terminated: " + value};
    }
    if (key == "Exit Code" && state_ended_)
      pod_.last_exit_code = static_cast<int>(to_number(value, -1));
    if (key == "Reason" && !top && !state_ended_ && value.ends_with("BackOff")) {
      pod_.waiting_reason = value;
    }
  }

  void end() {
    if (!started_) return;
    if (is_node_) {
      if (node_.gpus_allocatable < 0) node_.gpus_allocatable = 0;
      facts_.nodes.push_back(node_);
    } else {
      facts_.pods.push_back(pod_);
    }
    started_ = false;
  }

 private:
  void start(const std::string& object, uint64_t number) {
    end();
    started_ = true;
    is_node_ = false;
    state_ended_ = false;
    section_.clear();
    pod_ = {};
    node_ = {};
    pod_.name = node_.name = object;
    pod_.shm_mounted = false;
    pod_.where = node_.where = {name_, number, "Name: " + object};
  }

  const std::string& name_;
  ClusterFacts& facts_;
  bool started_ = false;
  bool is_node_ = false;
  bool state_ended_ = false;
  std::string section_;
  PodFact pod_;
  NodeFact node_;
};

}  // namespace

void read_describe(std::string_view text, const std::string& name, ClusterFacts& facts) {
  Describer describer(name, facts);
  for (Lines in(text); in.next();) describer.take(in.line, in.number);
  describer.end();
}

}  // namespace shanty
