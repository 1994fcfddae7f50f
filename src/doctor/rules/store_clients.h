#pragma once

#include <cstdint>
#include <set>
#include <utility>

#include "doctor/rule.h"

namespace shanty {

// Whether some process lost a connection to a store other than the one that gave up waiting, as
// `joined` says: whoever had come to that one, its host included, loses it by that alone.
inline bool others_lost_a_store(const Case& of, const Record& joined) {
  std::set<std::pair<int, uint32_t>> clients;
  for (const Record* record : of.all({"gloo_closed", "store_closed"})) {
    clients.emplace(record->rank, record->rank < 0 ? record->file : 0);
  }
  return static_cast<int64_t>(clients.size()) >= joined.number("joined");
}

}  // namespace shanty
