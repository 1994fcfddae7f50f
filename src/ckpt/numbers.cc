#include "ckpt/numbers.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>

namespace shanty::ckpt {
namespace {

template <typename T>
T load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <typename T>
double number(const char* at) {
  return static_cast<double>(load<T>(at));
}

double bfloat16(const char* at) {
  return static_cast<double>(std::bit_cast<float>(uint32_t{load<uint16_t>(at)} << 16));
}

struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  bool has_infinity;  // IEEE: the highest exponent is infinity and NaN
};

double small_float(uint32_t bits, SmallFloat format) {
  const uint32_t mantissa = bits & ((1U << format.mantissa_bits) - 1);
  const uint32_t exponent = (bits >> format.mantissa_bits) & ((1U << format.exponent_bits) - 1);
  const bool negative = ((bits >> (format.mantissa_bits + format.exponent_bits)) & 1) != 0;
  const uint32_t highest = (1U << format.exponent_bits) - 1;
  double value = 0;
  if (exponent == highest && format.has_infinity) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - format.bias - format.mantissa_bits);
  } else {
    value = std::ldexp(mantissa + (1U << format.mantissa_bits),
                       static_cast<int>(exponent) - format.bias - format.mantissa_bits);
  }
  return negative ? -value : value;
}

double float16(const char* at) { return small_float(load<uint16_t>(at), {5, 10, 15, true}); }
double float8_e5m2(const char* at) { return small_float(load<uint8_t>(at), {5, 2, 15, true}); }

// OCP FP8: no infinity, S.1111.111 is NaN.
double float8_e4m3(const char* at) {
  const uint8_t bits = load<uint8_t>(at);
  if ((bits & 0x7F) == 0x7F) return std::numeric_limits<double>::quiet_NaN();
  return small_float(bits, {4, 3, 7, false});
}

}  // namespace

NumberReader number_reader(std::string_view dtype) {
  static const std::map<std::string_view, NumberReader> kReaders = {
      {"F64", number<double>},   {"F32", number<float>},    {"F16", float16},
      {"BF16", bfloat16},        {"F8_E4M3", float8_e4m3},  {"F8_E5M2", float8_e5m2},
      {"I64", number<int64_t>},  {"I32", number<int32_t>},  {"I16", number<int16_t>},
      {"I8", number<int8_t>},    {"U64", number<uint64_t>}, {"U32", number<uint32_t>},
      {"U16", number<uint16_t>}, {"U8", number<uint8_t>},   {"BOOL", number<uint8_t>},
  };
  const auto found = kReaders.find(dtype);
  return found == kReaders.end() ? nullptr : found->second;
}

}  // namespace shanty::ckpt
