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

// Lines of store connections that ended while there were no ranks: none that has said anything,
// none that was started or that failed.
inline Records closed_before_start(const Case& of) {
  Records out;
  const bool started = !of.ranks().empty() || of.trained() || of.has("rdzv_done") ||
                       of.has("worker_failed") || of.has("sent_term") || of.has("death_signal") ||
                       of.has("rdzv_victim") || of.has("summary_root") || of.has("exception") ||
                       of.has("clients_joined") || of.has("client_timeout") ||
                       of.has("dump_store_gone");
  if (started) return out;
  for (const Record* record : of.all({"store_closed", "store_retry"})) {
    const std::string_view error = record->get("error");
    const bool closed = record->event == "store_closed" ||
                        error.find("reset by peer") != error.npos ||
                        error.find("got 0 bytes") != error.npos;
    if (closed) out.push_back(record);
  }
  return out;
}

// The last that is told of the barrier at the end of init_process_group, which ranks wait in: null
// where it ended, or where none has waited longer than a start takes.
inline const Record* first_barrier(const Case& of) {
  if (of.has("barrier_done") || of.trained()) return nullptr;
  if (const Record* told = of.first("barrier_timeout")) return told;
  std::set<int> waits;
  for (const Record* record : of.all("barrier_wait")) {
    if (!waits.insert(record->rank).second) return of.all("barrier_wait").back();
  }
  return nullptr;
}

}  // namespace shanty
