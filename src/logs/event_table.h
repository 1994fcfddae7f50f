#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "logs/log_book.h"

namespace shanty {

// Which lines of a kind are kept, of each origin (file, rank, process).
enum class Keep : uint8_t {
  kFirst,   // the first kKeepFirst and the last ones
  kSeries,  // many: progress, whose course is looked at
  kSample,  // one of each host and ending: lines by the thousand that say the same
};

// A row of the table of events. `needle` is a literal that the line holds; it is searched in all
// lines at once. `pattern` (RE2, anywhere in the message) then confirms it and captures by its
// named groups; empty: the needle suffices. Several rows may share an id: variants of versions.
struct EventRow {
  std::string_view id;
  Weight weight = Weight::kFact;
  std::string_view needle;
  std::string_view pattern;
  Keep keep = Keep::kFirst;
};

// All rows, of all files in events/.
std::span<const EventRow> event_rows();

}  // namespace shanty
