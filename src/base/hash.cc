#include "base/hash.h"

#include <array>
#include <cstring>

#include <nmmintrin.h>
#include <wmmintrin.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/check.h"

namespace shanty {
namespace {

constexpr uint32_t kCastagnoliReversed = 0x82f63b78;

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? kCastagnoliReversed : 0);
    table[i] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = make_table();

// x^n modulo the polynomial, reflected as a CRC is.
constexpr uint32_t power_of_x(int n) {
  uint32_t power = 0x80000000;
  for (; n > 0; --n) power = (power >> 1) ^ ((power & 1) ? kCastagnoliReversed : 0);
  return power;
}

uint32_t crc32c_table(const unsigned char* p, size_t size, uint32_t crc) {
  for (; size > 0; --size, ++p) crc = (crc >> 8) ^ kTable[(crc ^ *p) & 0xff];
  return crc;
}

__attribute__((target("sse4.2"))) uint32_t crc32c_sse42(const unsigned char* p, size_t size,
                                                        uint32_t crc) {
  uint64_t wide = crc;
  for (; size >= 8; size -= 8, p += 8) {
    uint64_t word = 0;
    std::memcpy(&word, p, 8);
    wide = _mm_crc32_u64(wide, word);
  }
  crc = static_cast<uint32_t>(wide);
  for (; size > 0; --size, ++p) crc = _mm_crc32_u8(crc, *p);
  return crc;
}

// Four lanes of 16 bytes, each multiplied by x^512 to lie over the 64 bytes that follow and added
// to them; what is left at the end has the CRC of all. The crc32 instruction alone is half as fast
// on processors that begin one only every three cycles.
constexpr size_t kFoldBytes = 64;

// The product of two reflected numbers is too large by x, and one of 32 bits in 64 by x^32.
constexpr uint32_t kFoldLow = power_of_x(512 + 64 - 33);
constexpr uint32_t kFoldHigh = power_of_x(512 - 33);

#define TARGET_PCLMUL __attribute__((target("sse4.2,pclmul")))

TARGET_PCLMUL inline __m128i load_lane(const unsigned char* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}

TARGET_PCLMUL inline __m128i fold(__m128i lane, const unsigned char* p) {
  const __m128i factors = _mm_set_epi64x(kFoldHigh, kFoldLow);
  const __m128i low = _mm_clmulepi64_si128(lane, factors, 0x00);
  const __m128i high = _mm_clmulepi64_si128(lane, factors, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), load_lane(p));
}

TARGET_PCLMUL uint32_t crc32c_fold(const unsigned char* p, size_t size, uint32_t crc) {
  if (size < 2 * kFoldBytes) return crc32c_sse42(p, size, crc);
  __m128i lanes[] = {load_lane(p), load_lane(p + 16), load_lane(p + 32), load_lane(p + 48)};
  lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128(static_cast<int>(crc)));
  for (p += kFoldBytes, size -= kFoldBytes; size >= kFoldBytes;
       p += kFoldBytes, size -= kFoldBytes) {
    lanes[0] = fold(lanes[0], p);
    lanes[1] = fold(lanes[1], p + 16);
    lanes[2] = fold(lanes[2], p + 32);
    lanes[3] = fold(lanes[3], p + 48);
  }
  crc = crc32c_sse42(reinterpret_cast<const unsigned char*>(lanes), kFoldBytes, 0);
  return crc32c_sse42(p, size, crc);
}

#undef TARGET_PCLMUL

using Crc32c = uint32_t (*)(const unsigned char* p, size_t size, uint32_t crc);

Crc32c fastest_crc32c() {
  if (__builtin_cpu_supports("sse4.2") == 0) return crc32c_table;
  return __builtin_cpu_supports("pclmul") == 0 ? crc32c_sse42 : crc32c_fold;
}

}  // namespace

uint32_t crc32c(const void* data, size_t size, uint32_t seed) {
  static const Crc32c run = fastest_crc32c();
  return ~run(static_cast<const unsigned char*>(data), size, ~seed);
}

std::string hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

std::string sha256(std::string_view bytes) {
  std::string out(32, '\0');
  unsigned int size = 0;
  CHECK(EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(out.data()), &size,
                   EVP_sha256(), nullptr) == 1);
  return out;
}

std::string hmac_sha256(std::string_view key, std::string_view message) {
  std::string out(32, '\0');
  unsigned int size = 0;
  CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(message.data()), message.size(),
             reinterpret_cast<unsigned char*>(out.data()), &size) != nullptr);
  return out;
}

bool equal_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace shanty
