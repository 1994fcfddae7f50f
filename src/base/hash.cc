#include "base/hash.h"

#include <array>
#include <cstring>

#include <immintrin.h>

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

// Lanes of 16 bytes, each multiplied by x to the power of the bits of all lanes, so as to lie over
// the bytes that follow, and added to them; what is left at the end has the CRC of all. The crc32
// instruction alone is half as fast on processors that begin one only every three cycles.
//
// The product of two reflected numbers is too large by x, and one of 32 bits in 64 by x^32.
constexpr uint32_t fold_low(int bits) { return power_of_x(bits + 64 - 33); }
constexpr uint32_t fold_high(int bits) { return power_of_x(bits - 33); }

constexpr size_t kFoldBytes = 64;       // four lanes
constexpr size_t kWideFoldBytes = 128;  // eight, two to a register

#define TARGET_PCLMUL __attribute__((target("sse4.2,pclmul")))
#define TARGET_VPCLMUL __attribute__((target("sse4.2,pclmul,avx2,vpclmulqdq")))

TARGET_PCLMUL inline __m128i load_lane(const unsigned char* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}

TARGET_PCLMUL inline __m128i fold(__m128i lane, const unsigned char* p) {
  constexpr int kBits = 8 * kFoldBytes;
  const __m128i factors = _mm_set_epi64x(fold_high(kBits), fold_low(kBits));
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

TARGET_VPCLMUL inline __m256i load_lanes(const unsigned char* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

TARGET_VPCLMUL inline __m256i fold_wide(__m256i lanes, const unsigned char* p) {
  constexpr int kBits = 8 * kWideFoldBytes;
  const __m256i factors =
      _mm256_set_epi64x(fold_high(kBits), fold_low(kBits), fold_high(kBits), fold_low(kBits));
  const __m256i low = _mm256_clmulepi64_epi128(lanes, factors, 0x00);
  const __m256i high = _mm256_clmulepi64_epi128(lanes, factors, 0x11);
  return _mm256_xor_si256(_mm256_xor_si256(low, high), load_lanes(p));
}

TARGET_VPCLMUL uint32_t crc32c_fold_wide(const unsigned char* p, size_t size, uint32_t crc) {
  if (size < 2 * kWideFoldBytes) return crc32c_fold(p, size, crc);
  __m256i lanes[] = {load_lanes(p), load_lanes(p + 32), load_lanes(p + 64), load_lanes(p + 96)};
  const __m128i seed = _mm_cvtsi32_si128(static_cast<int>(crc));
  lanes[0] = _mm256_xor_si256(lanes[0], _mm256_zextsi128_si256(seed));
  for (p += kWideFoldBytes, size -= kWideFoldBytes; size >= kWideFoldBytes;
       p += kWideFoldBytes, size -= kWideFoldBytes) {
    lanes[0] = fold_wide(lanes[0], p);
    lanes[1] = fold_wide(lanes[1], p + 32);
    lanes[2] = fold_wide(lanes[2], p + 64);
    lanes[3] = fold_wide(lanes[3], p + 96);
  }
  crc = crc32c_sse42(reinterpret_cast<const unsigned char*>(lanes), kWideFoldBytes, 0);
  return crc32c_sse42(p, size, crc);
}

#undef TARGET_VPCLMUL
#undef TARGET_PCLMUL

}  // namespace

namespace internal {

std::vector<Crc32cWay> crc32c_ways() {
  std::vector<Crc32cWay> ways = {crc32c_table};
  if (__builtin_cpu_supports("sse4.2") == 0) return ways;
  ways.push_back(crc32c_sse42);
  if (__builtin_cpu_supports("pclmul") == 0) return ways;
  ways.push_back(crc32c_fold);
  if (__builtin_cpu_supports("avx2") == 0 || __builtin_cpu_supports("vpclmulqdq") == 0) return ways;
  ways.push_back(crc32c_fold_wide);
  return ways;
}

}  // namespace internal

uint32_t crc32c(const void* data, size_t size, uint32_t seed) {
  static const internal::Crc32cWay run = internal::crc32c_ways().back();
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
