#include <fmt/format.h>

#include "doctor/rule.h"

namespace shanty {

void host_limits_rule(const Case& of, Hypotheses& out) {
  const Records files = of.all("fd_limit");
  const Records processes = of.all("fork_limit");
  if (files.empty() && processes.empty()) return;
  const Records& lines = files.empty() ? processes : files;
  Draft draft(of, "LOAD101", "host_limits", 0.92);
  draft.show(files).show(processes).blame(lines);
  draft.message(of.place(*lines.front()) + (files.empty()
                                                ? " may not start more processes or threads"
                                                : " ran out of file descriptors"));
  if (!files.empty()) {
    draft.rule_out("/dev/shm: it is the number of open files, not the space");
    draft.fix("ulimit -n 65536, or torch.multiprocessing.set_sharing_strategy('file_system')");
    draft.fix("keep no tensors of the loader in lists; each holds a descriptor");
  } else {
    draft.fix("pids.max of the pod's cgroup, ulimit -u; fewer workers and threads");
  }
  out.push_back(draft.done());
}

}  // namespace shanty
