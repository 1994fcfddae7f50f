#include "agent/worker_set.h"

#include <algorithm>
#include <csignal>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "agent/worker_env.h"

namespace shanty {
namespace {

struct Pipe {
  Fd read_end;
  Fd write_end;
};

Result<Pipe> make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return errno_error("making a pipe for a worker's output");
  // Best effort: unprivileged users may be limited to less.
  ::fcntl(fds[0], F_SETPIPE_SZ, LogPump::kPipeBytes);
  return Pipe{Fd(fds[0]), Fd(fds[1])};
}

}  // namespace

Status WorkerSet::start(const gang::World& world) {
  world_ = world;
  workers_.clear();
  TRY_STATUS(run_.make_generation(world.generation));
  for (int local_rank = 0; local_rank < world.local_size; ++local_rank) {
    TRY_STATUS(start_one(local_rank)
                   .context(fmt::format("starting rank {}", world.first_rank + local_rank)));
  }
  return {};
}

bool WorkerSet::writes_logs_itself(int local_rank) const {
  return std::find(spec_.direct_log_ranks.begin(), spec_.direct_log_ranks.end(), local_rank) !=
         spec_.direct_log_ranks.end();
}

Status WorkerSet::start_one(int local_rank) {
  const int rank = world_.first_rank + local_rank;
  const uint64_t generation = world_.generation;
  const int64_t now_unix_ns = system_clock().unix_time_ns();
  auto log = TRY(RankLogWriter::open(run_.log(generation, rank), run_.log_index(generation, rank),
                                     now_unix_ns));
  std::optional<RankLogWriter> error_log;
  Pipe out;
  Pipe err;
  if (writes_logs_itself(local_rank)) {
    error_log = TRY(RankLogWriter::open(run_.error_log(generation, rank),
                                        run_.error_log_index(generation, rank), now_unix_ns,
                                        LogStream::kStderr));
  } else {
    out = TRY(make_pipe());
    err = TRY(make_pipe());
  }
  Fd ring = TRY(create_ring(rank, generation));

  const WorkerPlace place{.local_rank = local_rank,
                          .ring_fd = ring.get(),
                          .checkpoint_socket = checkpoint_socket_,
                          .error_file = run_.error_json(generation, rank),
                          .elastic_error_file = run_.elastic_error_json(generation, rank)};
  WorkerLaunch launch = make_worker_launch(spec_, world_, place, current_environment());
  const pid_t pid = TRY(spawn({.argv = std::move(launch.argv),
                               .env = std::move(launch.env),
                               .working_dir = spec_.working_dir,
                               .stdout_fd = error_log ? log.log_fd() : out.write_end.get(),
                               .stderr_fd = error_log ? error_log->log_fd() : err.write_end.get(),
                               .inherited_fds = {ring.get()},
                               .new_session = true,
                               .parent_death_signal = SIGKILL,
                               .pid_variable = "SHANTY_WORKER_PID"}));
  if (error_log) {
    pump_.add_direct(LogStream::kStdout, std::move(log));
    pump_.add_direct(LogStream::kStderr, std::move(*error_log));
  } else {
    pump_.add(std::move(out.read_end), std::move(err.read_end), std::move(log));
  }
  Worker worker{.local_rank = local_rank, .rank = rank, .pid = pid, .alive = true};
  worker.ring.emplace(TRY(RingReader::map(ring.get())));
  workers_.push_back(std::move(worker));
  return {};
}

void WorkerSet::signal(int number) {
  for (const Worker& worker : workers_) {
    if (!worker.alive) continue;
    ::killpg(worker.pid, number);
    ::killpg(worker.pid, SIGCONT);  // a stopped process cannot act on it
  }
}

void WorkerSet::kill() {
  for (const Worker& worker : workers_) {
    if (!worker.alive) continue;
    for (const pid_t pid : list_descendants(worker.pid)) ::kill(pid, SIGKILL);
    ::killpg(worker.pid, SIGKILL);
  }
  kill_orphans();
}

size_t WorkerSet::kill_orphans() {
  size_t count = 0;
  for (const pid_t pid : list_children()) {
    const bool is_worker = std::any_of(workers_.begin(), workers_.end(),
                                       [&](const Worker& w) { return w.alive && w.pid == pid; });
    if (is_worker || pid == bystander_) continue;
    for (const pid_t descendant : list_descendants(pid)) ::kill(descendant, SIGKILL);
    ::kill(pid, SIGKILL);
    ++count;
  }
  return count;
}

std::vector<WorkerSet::Ended> WorkerSet::reap() {
  std::vector<Ended> ended;
  for (const ReapedChild& child : reap_children()) {
    if (child.pid == bystander_) bystander_ = 0;
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (!workers_[i].alive || workers_[i].pid != child.pid) continue;
      workers_[i].alive = false;
      ended.push_back({i, child});
    }
  }
  return ended;
}

bool WorkerSet::any_worker_alive() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const Worker& w) { return w.alive; });
}

bool WorkerSet::all_gone() const {
  if (any_worker_alive()) return false;
  const auto children = list_children();
  return std::all_of(children.begin(), children.end(),
                     [this](pid_t pid) { return pid == bystander_; });
}

}  // namespace shanty
