#include "follow/first_minute.h"

#include <charconv>
#include <optional>

#include <fmt/format.h>

namespace shanty::follow {
namespace {

constexpr size_t kMaxShownBytes = 160;

// "generation 1: 16 ranks on 2 nodes": what the coordinator says when all agents are there and it
// has given each its ranks.
struct World {
  int generation = 0;
  int ranks = 0;
  int nodes = 0;
};

bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

bool take(std::string_view& text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

std::optional<World> read_world(std::string_view text) {
  World world;
  if (!take(text, "generation ") || !take(text, world.generation) || !take(text, ": ") ||
      !take(text, world.ranks) || !(take(text, " ranks on ") || take(text, " rank on ")) ||
      !take(text, world.nodes) || !take(text, " node")) {
    return std::nullopt;
  }
  return world;
}

std::string cut(std::string_view text) {
  const bool fits = text.size() <= kMaxShownBytes;
  return std::string(text.substr(0, kMaxShownBytes)) + (fits ? "" : "...");
}

std::string_view after(std::string_view line, std::string_view word) {
  const size_t at = line.find(word);
  return at == std::string_view::npos ? std::string_view() : line.substr(at + word.size());
}

}  // namespace

std::vector<std::string> FirstMinute::on_agent_line(std::string_view text, TimePoint now) {
  const auto world = environment_told_ ? std::nullopt : read_world(text);
  if (!world) return {};
  environment_told_ = true;
  formed_ = now;
  std::vector<std::string> out = {fmt::format(
      "environment: right on {} rank{} of {} node{}: RANK, LOCAL_RANK, WORLD_SIZE={} and one "
      "MASTER_ADDR come from the agents, which have all met",
      world->ranks == 1 ? "the 1" : fmt::format("all {}", world->ranks),
      world->ranks == 1 ? "" : "s", world->nodes, world->nodes == 1 ? "" : "s", world->ranks)};
  if (gpus_ == 0) {
    nccl_told_ = true;
    out.emplace_back("network: NCCL is not asked, the job has no GPUs (gloo speaks TCP)");
  } else if (world->ranks == 1) {
    nccl_told_ = true;
    out.emplace_back("network: there is one rank, NCCL has nobody to speak to");
  }
  return out;
}

std::vector<std::string> FirstMinute::on_rank_line(std::string_view line) {
  for (const char* transport : {"NET/IB", "NET/Socket"}) {
    const std::string_view using_what = after(line, std::string(transport) + " : Using");
    if (!using_what.empty()) interfaces_.emplace(transport, cut(using_what));
  }
  std::string_view name = after(line, "NCCL INFO Using network ");
  while (!name.empty() && (name.back() == '\r' || name.back() == ' ')) name.remove_suffix(1);
  if (name.empty()) return {};
  if (!network_.empty()) {
    if (name == network_ || interfaces_.contains("told")) return {};
    interfaces_.emplace("told", "");
    return {
        fmt::format("network: NCCL disagrees: \"{}\" here, \"{}\" elsewhere; ranks that do not "
                    "use the same network cannot meet: {}",
                    cut(name), network_, cut(line))};
  }
  network_ = cut(name);
  nccl_told_ = true;
  const auto found = interfaces_.find(network_ == "Socket" ? "NET/Socket" : "NET/IB");
  const std::string detail = found == interfaces_.end() ? "" : ":" + found->second;
  if (network_ != "Socket") return {"network: NCCL uses " + network_ + detail};
  return {"network: NCCL uses Socket, plain TCP" + detail +
          "; where the nodes have InfiniBand, RoCE or EFA this is many times slower than it could "
          "be: ask for it with network.rdma"};
}

std::vector<std::string> FirstMinute::on_tick(TimePoint now) {
  if (nccl_told_ || !environment_told_ || now - formed_ < kNcclPatience) return {};
  nccl_told_ = true;
  return {
      "network: NCCL has not said which network it uses: it does with NCCL_DEBUG=INFO, at the "
      "first collective on a GPU"};
}

}  // namespace shanty::follow
