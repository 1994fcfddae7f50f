#include "ckpt/pull.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <sys/uio.h>

#include <fmt/format.h>

#include "ckpt/background.h"
#include "os/files.h"

namespace shanty::ckpt {
namespace {

constexpr uint64_t kBlockBytes = uint64_t{4} << 20;
constexpr size_t kMaxMapsBytes = size_t{64} << 20;

// Blocks of at most kBlockBytes and IOV_MAX runs: one system call each.
std::vector<std::vector<Pull>> cut(const std::vector<Pull>& pulls) {
  std::vector<std::vector<Pull>> blocks;
  uint64_t room = 0;
  for (Pull pull : pulls) {
    while (pull.bytes > 0) {
      if (room == 0 || blocks.back().size() == IOV_MAX) {
        blocks.emplace_back();
        room = kBlockBytes;
      }
      const uint64_t bytes = std::min(pull.bytes, room);
      blocks.back().push_back({pull.from, pull.to, bytes});
      pull.from += bytes;
      pull.to += bytes;
      pull.bytes -= bytes;
      room -= bytes;
    }
  }
  return blocks;
}

// One end of a copy as the kernel wants it; an address of the other process is never followed here.
iovec run_at(uint64_t address, uint64_t bytes) {
  return {reinterpret_cast<void*>(address), bytes};  // NOLINT
}

iovec run_at(const char* address, uint64_t bytes) { return {const_cast<char*>(address), bytes}; }

// What became of a copy of `bytes` of which the kernel says that it did `n`.
Status outcome(pid_t pid, ssize_t n, uint64_t bytes, const char* call) {
  if (n == static_cast<ssize_t>(bytes)) return {};
  const std::string what = fmt::format("copying the tensors of process {}", pid);
  if (n < 0 && errno == ESRCH) return Error{what + ": it has ended"};
  if (n < 0) return errno_error(fmt::format("{} ({})", what, call));
  return Error{fmt::format("{}: only {} of {} bytes are there; a tensor was freed meanwhile", what,
                           n, bytes)};
}

Status pull_block(pid_t pid, const std::vector<Pull>& block) {
  std::vector<iovec> local;
  std::vector<iovec> remote;
  uint64_t bytes = 0;
  for (const Pull& pull : block) {
    local.push_back(run_at(pull.to, pull.bytes));
    remote.push_back(run_at(pull.from, pull.bytes));
    bytes += pull.bytes;
  }
  const ssize_t n =
      ::process_vm_readv(pid, local.data(), local.size(), remote.data(), remote.size(), 0);
  return outcome(pid, n, bytes, "process_vm_readv");
}

}  // namespace

Status pull_memory(pid_t pid, std::vector<Pull> pulls, int threads, Arrival* arrival) {
  std::sort(pulls.begin(), pulls.end(),
            [](const Pull& one, const Pull& other) { return one.to < other.to; });
  const auto blocks = cut(pulls);
  std::atomic<size_t> next = 0;
  std::mutex mutex;  // guards the three below
  std::optional<Error> failure;
  std::vector<bool> there(blocks.size());
  size_t first_missing = 0;
  const auto note = [&](size_t done) {
    const std::lock_guard lock(mutex);
    there[done] = true;
    while (first_missing < there.size() && there[first_missing]) ++first_missing;
    if (arrival != nullptr && first_missing < there.size()) {
      arrival->advance(blocks[first_missing].front().to);
    }
  };
  const auto work = [&] {
    for (size_t i = next++; i < blocks.size(); i = next++) {
      const Status pulled = pull_block(pid, blocks[i]);
      if (pulled.ok()) {
        note(i);
        continue;
      }
      const std::lock_guard lock(mutex);
      failure = pulled.error();
      next = blocks.size();
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads && static_cast<size_t>(i) < blocks.size(); ++i) {
    others.emplace_back([&] {
      work_in_background();
      work();
    });
  }
  work();
  for (std::thread& other : others) other.join();
  if (failure) return *failure;
  return {};
}

Status push_memory(pid_t pid, const std::vector<Push>& pushes) {
  for (size_t at = 0; at < pushes.size();) {
    std::vector<iovec> local;
    std::vector<iovec> remote;
    uint64_t bytes = 0;
    for (; at < pushes.size() && local.size() < IOV_MAX && bytes < kBlockBytes; ++at) {
      local.push_back(run_at(pushes[at].from, pushes[at].bytes));
      remote.push_back(run_at(pushes[at].to, pushes[at].bytes));
      bytes += pushes[at].bytes;
    }
    const ssize_t n =
        ::process_vm_writev(pid, local.data(), local.size(), remote.data(), remote.size(), 0);
    TRY_STATUS(outcome(pid, n, bytes, "process_vm_writev"));
  }
  return {};
}

bool may_pull(pid_t pid) {
  const auto maps = read_file(fmt::format("/proc/{}/maps", pid), kMaxMapsBytes);
  if (!maps) return false;
  for (const char* line = maps->c_str(); *line != '\0';) {
    unsigned long start = 0;
    char mode = 0;
    if (std::sscanf(line, "%lx-%*x %c", &start, &mode) != 2) return false;
    char byte = 0;
    if (mode == 'r') return pull_memory(pid, {{start, &byte, 1}}, 1).ok();
    line = std::strchr(line, '\n');
    if (line == nullptr) return false;
    ++line;
  }
  return false;
}

}  // namespace shanty::ckpt
