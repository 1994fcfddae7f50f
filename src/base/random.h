#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace shanty {

// xoshiro256** seeded through splitmix64: the same seed gives the same numbers on every machine.
// For simulation and jitter, never for secrets.
class Rng {
 public:
  explicit Rng(uint64_t seed);
  uint64_t next();
  // Uniform in [0, bound); bound > 0.
  uint64_t below(uint64_t bound);
  // Uniform in [0, 1).
  double uniform();
  bool chance(double probability) { return uniform() < probability; }

 private:
  uint64_t state_[4];
};

// `size` bytes from the kernel's generator, for tokens.
std::string secure_random_bytes(size_t size);

}  // namespace shanty
