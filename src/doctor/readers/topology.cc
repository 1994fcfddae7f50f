#include <vector>

#include "doctor/readers/lines.h"
#include "doctor/readers/readers.h"
#include "logs/ansi.h"
#include "logs/pattern.h"
#include "text/utf8.h"

namespace shanty {
namespace {

constexpr size_t kMaxColumns = 256;

std::vector<std::string> words(std::string_view line) {
  std::vector<std::string> out;
  const std::string plain = without_ansi(line);
  size_t at = 0;
  while (at < plain.size() && out.size() < kMaxColumns) {
    const size_t begin = plain.find_first_not_of(" \t", at);
    if (begin == plain.npos) break;
    const size_t end = std::min(plain.find_first_of(" \t", begin), plain.size());
    out.push_back(printable(std::string_view(plain).substr(begin, end - begin)));
    at = end;
  }
  return out;
}

}  // namespace

void read_topology_matrix(std::string_view text, const std::string& name, ClusterFacts& facts) {
  std::vector<std::string> columns;
  for (Lines in(text); in.next();) {
    const std::vector<std::string> cells = words(in.line);
    if (cells.empty()) continue;
    if (columns.empty()) {
      if (cells.front() == "GPU0") columns = cells;
      continue;
    }
    if (!cells.front().starts_with("GPU") && !cells.front().starts_with("NIC") &&
        !cells.front().starts_with("mlx")) {
      continue;
    }
    for (size_t i = 1; i < cells.size() && i <= columns.size(); ++i) {
      const std::string& to = columns[i - 1];
      if (!to.starts_with("GPU") && !to.starts_with("NIC") && !to.starts_with("mlx")) break;
      if (cells[i] == "X") continue;
      facts.links.push_back({.from = cells.front(),
                             .to = to,
                             .kind = cells[i],
                             .where = {name, in.number, printable(in.line)}});
    }
  }
}

void read_nccl_topology(std::string_view text, const std::string& name, ClusterFacts& facts) {
  (void)name;
  const Pattern net(R"~(<net [^>]*name="(?P<name>[^"]+)")~");
  for (Lines in(text); in.next();) {
    Captures captures;
    if (net.find(in.line, captures)) {
      facts.nccl_topology_nets.push_back(printable(capture(captures, "name")));
    }
  }
}

}  // namespace shanty
