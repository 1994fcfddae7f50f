#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shanty {

// CRC32C (Castagnoli), as in RFC 3720. `seed` is the value returned for the bytes before.
// Uses VPCLMULQDQ, or PCLMUL, and SSE4.2 where the processor has them.
uint32_t crc32c(const void* data, size_t size, uint32_t seed = 0);
inline uint32_t crc32c(std::string_view s) { return crc32c(s.data(), s.size()); }

namespace internal {
// The implementations that this processor can run, the fastest last; for tests. They take and give
// the CRC without its two inversions.
using Crc32cWay = uint32_t (*)(const unsigned char* data, size_t size, uint32_t crc);
std::vector<Crc32cWay> crc32c_ways();
}  // namespace internal

std::string hex(std::string_view bytes);

// SHA-256 of `bytes`, 32 raw bytes.
std::string sha256(std::string_view bytes);
// HMAC-SHA-256, 32 raw bytes.
std::string hmac_sha256(std::string_view key, std::string_view message);
// True when both are equal; takes the same time wherever they differ.
bool equal_constant_time(std::string_view a, std::string_view b);

}  // namespace shanty
