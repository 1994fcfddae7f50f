#include "logs/event_table.h"

#include "logs/events/rows.h"

namespace shanty {

std::span<const EventRow> event_rows() {
  static const auto* rows = [] {
    auto* all = new std::vector<EventRow>;
    for (const auto& some : {nccl_rows(), torch_rows(), program_rows(), machine_rows()}) {
      all->insert(all->end(), some.begin(), some.end());
    }
    return all;
  }();
  return *rows;
}

}  // namespace shanty
