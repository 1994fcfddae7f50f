// Runs seeded random schedules of whole jobs through the gang's state machines and checks their
// invariants after every event. A violation prints its seed and the end of its trace;
// `gang_soak --seed N --trace` runs that schedule again and prints all of it.

#include <atomic>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "gang/sim/sim.h"

namespace {

using namespace shanty::gang;

constexpr uint64_t kMaxThreads = 256;

struct Options {
  uint64_t first_seed = 1;
  uint64_t count = 1'000'000;
  uint64_t threads = 2;
  bool one_seed = false;
  bool trace = false;
};

constexpr const char* kUsage =
    "usage: gang_soak [--count N] [--first N] [--threads N]   run N schedules\n"
    "       gang_soak --seed N [--trace]                      run one again\n";

bool parse_number(std::string_view text, uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::optional<Options> parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--trace") {
      o.trace = true;
      continue;
    }
    uint64_t value = 0;
    if (i + 1 >= argc || !parse_number(argv[++i], value)) return std::nullopt;
    if (flag == "--count") {
      o.count = value;
    } else if (flag == "--threads") {
      o.threads = value;
    } else if (flag == "--seed" || flag == "--first") {
      o.first_seed = value;
      o.one_seed = flag == "--seed";
    } else {
      return std::nullopt;
    }
  }
  if (o.threads < 1 || o.threads > kMaxThreads) return std::nullopt;
  return o;
}

int run_one(const Options& o) {
  sim::SimConfig config = sim::random_config(o.first_seed);
  config.trace = o.trace;
  const sim::SimResult result = sim::simulate(config);
  for (const std::string& line : result.trace) std::puts(line.c_str());
  std::printf("seed %llu: %s, %d generations, %llu events; %s\n",
              static_cast<unsigned long long>(o.first_seed), to_string(result.outcome),
              result.generations, static_cast<unsigned long long>(result.events),
              result.violation.empty() ? "no violation" : result.violation.c_str());
  return result.violation.empty() ? 0 : 1;
}

struct Totals {
  std::atomic<uint64_t> done{0}, events{0}, generations{0}, violations{0};
  std::atomic<uint64_t> outcomes[4] = {};
};

void run_some(const Options& o, std::atomic<uint64_t>& next, Totals& totals, std::mutex& out) {
  constexpr uint64_t kMaxPrinted = 5;
  for (uint64_t i = next++; i < o.count && totals.violations < kMaxPrinted; i = next++) {
    const sim::SimConfig config = sim::random_config(o.first_seed + i);
    const sim::SimResult result = sim::simulate(config);
    ++totals.done;
    totals.events += result.events;
    totals.generations += static_cast<uint64_t>(result.generations);
    ++totals.outcomes[static_cast<size_t>(result.outcome)];
    if (result.violation.empty()) continue;
    ++totals.violations;
    const std::lock_guard lock(out);
    std::fputs(sim::explain_violation(config).c_str(), stdout);
  }
}

int run_all(const Options& o) {
  std::atomic<uint64_t> next{0};
  Totals totals;
  std::mutex out;
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < o.threads; ++i) {
    threads.emplace_back([&] { run_some(o, next, totals, out); });
  }
  for (std::thread& thread : threads) thread.join();
  const auto number = [](const std::atomic<uint64_t>& n) {
    return static_cast<unsigned long long>(n.load());
  };
  std::printf(
      "%llu schedules, %llu events, %llu generations; %llu succeeded, %llu failed, %llu stopped, "
      "%llu without a word; %llu violations\n",
      number(totals.done), number(totals.events), number(totals.generations),
      number(totals.outcomes[1]), number(totals.outcomes[2]), number(totals.outcomes[3]),
      number(totals.outcomes[0]), number(totals.violations));
  return totals.violations == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = parse(argc, argv);
  if (!options) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  return options->one_seed ? run_one(*options) : run_all(*options);
}
