#include "lint/parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace shanty::lint {
namespace {

constexpr size_t kSmallCount = 8;  // below it a thread costs more than it saves

}  // namespace

void for_each_index(size_t count, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  const auto drain = [&] {
    for (size_t i = next++; i < count; i = next++) work(i);
  };
  const size_t cores = std::max(std::thread::hardware_concurrency(), 1u);
  const size_t helpers = count < kSmallCount ? 0 : std::min({cores, kMaxLintThreads, count}) - 1;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < helpers; ++i) threads.emplace_back(drain);
  drain();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace shanty::lint
