#include "ckpt/parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace shanty::ckpt {
namespace {

constexpr int kMaxThreads = 64;

}  // namespace

void for_each_parallel(size_t count, int threads, const std::function<bool(size_t)>& work) {
  std::atomic<size_t> next{0};
  std::atomic<bool> stop{false};
  const auto loop = [&] {
    while (!stop.load()) {
      const size_t i = next.fetch_add(1);
      if (i >= count) return;
      if (!work(i)) stop = true;
    }
  };
  const size_t wanted = std::min(count, static_cast<size_t>(std::clamp(threads, 1, kMaxThreads)));
  std::vector<std::thread> helpers;
  for (size_t i = 1; i < wanted; ++i) helpers.emplace_back(loop);
  loop();
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace shanty::ckpt
