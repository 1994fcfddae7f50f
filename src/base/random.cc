#include "base/random.h"

#include <bit>

#include <sys/random.h>

#include "base/check.h"

namespace shanty {

Rng::Rng(uint64_t seed) : state_{} {
  for (uint64_t& word : state_) {
    seed += 0x9e3779b97f4a7c15;
    uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    word = z ^ (z >> 31);
  }
}

uint64_t Rng::next() {
  const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

uint64_t Rng::below(uint64_t bound) {
  CHECK(bound > 0);
  // Lemire's multiply-shift; the bias is below 2^-32 for the bounds used here.
  return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
}

double Rng::uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

std::string secure_random_bytes(size_t size) {
  std::string out(size, '\0');
  size_t filled = 0;
  while (filled < size) {
    const ssize_t n = getrandom(out.data() + filled, size - filled, 0);
    CHECK(n > 0);
    filled += static_cast<size_t>(n);
  }
  return out;
}

}  // namespace shanty
