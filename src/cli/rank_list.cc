#include "cli/rank_list.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

namespace shanty {
namespace {

std::optional<int> parse_rank(std::string_view text) {
  int rank = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || rank < 0 || rank > kMaxRank) return std::nullopt;
  return rank;
}

}  // namespace

Result<std::vector<int>> parse_rank_list(std::string_view text) {
  std::vector<int> ranks;
  const std::string whole(text);
  while (true) {
    const std::string_view part = text.substr(0, text.find(','));
    const size_t dash = part.find('-');
    const auto first = parse_rank(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_rank(part.substr(dash + 1));
    if (!first || !last || *last < *first) {
      return Error{"\"" + whole + "\" is not a list of ranks such as 0,3-5"};
    }
    for (int rank = *first; rank <= *last; ++rank) ranks.push_back(rank);
    if (part.size() == text.size()) break;
    text.remove_prefix(part.size() + 1);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace shanty
