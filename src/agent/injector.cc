#include "agent/injector.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include <sys/resource.h>
#include <unistd.h>

#include <fmt/format.h>

#include "os/files.h"

namespace shanty {
namespace {

constexpr Duration kSlowPeriod = std::chrono::milliseconds(100);
constexpr rlim_t kOomHeadroomBytes = 16 << 20;

Worker* find_worker(std::vector<Worker>& workers, int rank) {
  for (Worker& worker : workers) {
    if (worker.rank == rank) return &worker;
  }
  return nullptr;
}

// From now on the worker gets hardly any more memory: what it asks for next fails as it would on
// a machine that has none left.
bool starve_of_memory(pid_t pid) {
  const auto statm = read_file(fmt::format("/proc/{}/statm", pid), 4096);
  if (!statm) return false;
  const auto pages = std::strtoull(statm->c_str(), nullptr, 10);
  const rlim_t limit = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + kOomHeadroomBytes;
  const rlimit limits{.rlim_cur = limit, .rlim_max = limit};
  return ::prlimit(pid, RLIMIT_AS, &limits, nullptr) == 0;
}

bool is_due(const Inject& inject, const gang::World& world, const Injector::LastStep& last_step) {
  if (world.generation != inject.generation) return false;
  const bool by_rank = inject.rank >= 0;
  if (!by_rank && inject.node_rank != world.node_rank) return false;
  const int local_rank = by_rank ? inject.rank - world.first_rank : 0;
  if (local_rank < 0 || local_rank >= world.local_size) return false;
  return inject.step == 0 || last_step(local_rank).value_or(0) >= inject.step;
}

}  // namespace

Injector::Injector(const std::vector<Inject>& injects) {
  for (const Inject& inject : injects) pending_.push_back({inject});
}

bool Injector::active() const {
  return !slowed_.empty() ||
         std::any_of(pending_.begin(), pending_.end(), [](const Pending& p) { return !p.fired; });
}

std::vector<Injector::Done> Injector::check(const gang::World& world, std::vector<Worker>& workers,
                                            const LastStep& last_step, TimePoint now) {
  std::vector<Done> done;
  for (Pending& pending : pending_) {
    if (pending.fired || !is_due(pending.inject, world, last_step)) continue;
    pending.fired = true;
    done.push_back(fire(pending.inject, workers, now));
  }
  pace(workers, now);
  return done;
}

Injector::Done Injector::fire(const Inject& inject, std::vector<Worker>& workers, TimePoint now) {
  if (inject.kind == InjectKind::kNetcut) {
    return {.text = fmt::format("injected: the agent's connection is cut for {} s", inject.seconds),
            .netcut_s = inject.seconds};
  }
  Done done{.rank = inject.rank};
  Worker* worker = find_worker(workers, inject.rank);
  if (worker == nullptr || !worker->alive) {
    done.text = fmt::format("not injected: rank {} is not alive", inject.rank);
    return done;
  }
  switch (inject.kind) {
    case InjectKind::kKill:
      ::kill(worker->pid, SIGKILL);
      done.text = fmt::format("injected: SIGKILL to rank {}", inject.rank);
      break;
    case InjectKind::kStop:
      ::kill(worker->pid, SIGSTOP);
      done.text = fmt::format("injected: SIGSTOP to rank {}", inject.rank);
      break;
    case InjectKind::kSlow:
      slowed_.push_back({.pid = worker->pid, .factor = inject.factor, .next_change = now});
      done.text = fmt::format("injected: rank {} runs {} times slower", inject.rank, inject.factor);
      break;
    case InjectKind::kExit:
      if (worker->ring) worker->ring->command_exit(static_cast<uint8_t>(inject.exit_code));
      done.text = fmt::format("injected: rank {} exits with code {} after its step", inject.rank,
                              inject.exit_code);
      break;
    case InjectKind::kOom:
      done.text =
          starve_of_memory(worker->pid)
              ? fmt::format("injected: rank {} gets no more memory", inject.rank)
              : fmt::format("not injected: cannot limit the memory of rank {}", inject.rank);
      break;
    case InjectKind::kNetcut:
      break;
  }
  return done;
}

// Runs each slowed worker for 1/factor of the time.
void Injector::pace(const std::vector<Worker>& workers, TimePoint now) {
  std::erase_if(slowed_, [&](const Slowed& slowed) {
    return std::none_of(workers.begin(), workers.end(),
                        [&](const Worker& w) { return w.alive && w.pid == slowed.pid; });
  });
  for (Slowed& slowed : slowed_) {
    if (now < slowed.next_change) continue;
    slowed.stopped = !slowed.stopped;
    ::kill(slowed.pid, slowed.stopped ? SIGSTOP : SIGCONT);
    const double share = slowed.stopped ? 1 - 1 / slowed.factor : 1 / slowed.factor;
    slowed.next_change =
        now + Duration(static_cast<int64_t>(static_cast<double>(kSlowPeriod.count()) * share));
  }
}

}  // namespace shanty
