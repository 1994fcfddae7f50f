#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace shanty {

// Reads a time as logs write it: ISO 8601 with 'T' or a blank, any fraction, "Z" or an offset;
// "Nov 29 12:00:01"; "1129 12:00:01.123" and "419 12:00:01.123" (month without its zero, as glog
// writes); "2026/11/29 12:00:01"; "29/Nov/2026:12:00:01"; seconds, milliseconds or nanoseconds
// since the epoch. No zone counts as UTC. A time without a year gets the one that puts it at most a
// day after `around_unix_ns`. nullopt: not a time.
std::optional<int64_t> parse_stamp(std::string_view text, int64_t around_unix_ns);

}  // namespace shanty
