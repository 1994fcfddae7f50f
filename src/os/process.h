#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

#include "base/result.h"
#include "os/fd.h"

namespace shanty {

struct SpawnOptions {
  std::vector<std::string> argv;  // argv[0] is searched in PATH when it has no slash
  // Runs this program's own file, also when it was replaced or removed since; argv[0] is a name.
  bool this_program = false;
  std::vector<std::string> env;  // the whole environment, "NAME=value"
  std::string working_dir;       // "" = the parent's
  int stdout_fd = -1;            // -1 = the parent's
  int stderr_fd = -1;
  std::vector<int> inherited_fds;  // kept open under the same number
  bool new_session = false;        // setsid: own session and process group
  int parent_death_signal = 0;     // sent to the child when the spawning thread dies
  std::string pid_variable;        // set to the child's pid in its environment, "" = none
};

// Forks and execs. Descriptors above 2 that are not named in inherited_fds are closed, signal
// dispositions and the mask are reset, and so is the limit of descriptors (see below). Fails when
// exec fails, with its reason.
Result<pid_t> spawn(const SpawnOptions& options);

// Lets this process open as many descriptors as its hard limit allows. What spawn() starts gets the
// limit that was there before, since programs that use select() rely on it. From the main thread,
// before any spawn().
void raise_descriptor_limit();

// A descriptor that becomes readable when process `pid` ends. Fails when there is no such process.
Result<Fd> open_pidfd(pid_t pid);

// Orphaned descendants are re-parented to this process from now on.
Status become_subreaper();

struct ReapedChild {
  pid_t pid = 0;
  int exit_code = 0;
  int signal = 0;  // 0 = exited
};
// Collects every child that has ended, known or adopted; never blocks.
std::vector<ReapedChild> reap_children();

// Living and dead-but-unreaped children of this process, adopted ones included.
std::vector<pid_t> list_children();
// All descendants of `pid`, children before their children; not `pid` itself.
std::vector<pid_t> list_descendants(pid_t pid);

// The environment of this process, "NAME=value".
std::vector<std::string> current_environment();
// Replaces or adds a variable.
void set_variable(std::vector<std::string>& env, const std::string& name, const std::string& value);
// nullptr when it is not set.
const std::string* find_variable(const std::vector<std::string>& env, const std::string& name);

// Where this program's file lies.
Result<std::string> own_executable();

std::string host_name();

}  // namespace shanty
