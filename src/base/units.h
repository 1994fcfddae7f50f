#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace shanty {

// Readers of the units that people write in job files and on command lines, and writers of what
// they like to read. Each reader takes the whole string or says what it expected.

// "16Gi", "64 MB", "1.5e9", "512": bytes. Ki Mi Gi Ti Pi are powers of 1024; k K M G T P (with or
// without B) powers of 1000. Errors: not a number, unknown unit, negative, beyond 2^63.
Result<uint64_t> parse_bytes(std::string_view text);
// "1h", "15m", "30s", "250ms", "1h30m", "2d", "90" (seconds): seconds. Errors as above.
Result<double> parse_duration_s(std::string_view text);
// "100GB/s", "25Gbit/s", "200Gbps": bytes per second.
Result<double> parse_bandwidth_bytes_per_s(std::string_view text);
// "2e9", "7B", "350M", "1_000": a plain count or amount; K M B T are powers of 1000.
Result<double> parse_number(std::string_view text);
// "5%" -> 0.05.
Result<double> parse_percent(std::string_view text);

std::string format_bytes(uint64_t bytes);     // "16.0 GiB"
std::string format_duration(double seconds);  // "850 ms", "3.2 s", "4 min 05 s", "1 h 02 min"
std::string format_count(double value);       // "2e+09" never: "2.0 B", "350 M", "1,234"

}  // namespace shanty
