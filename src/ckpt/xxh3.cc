#include "ckpt/xxh3.h"

// The library's code in this file only, so that it is compiled with our flags and not linked.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wconversion"
#define XXH_INLINE_ALL
#include <xxhash.h>
#pragma GCC diagnostic pop

#include "base/check.h"
#include "base/hash.h"
#include "ckpt/xxh3_avx2.h"

namespace shanty::ckpt {
namespace {

std::string canonical_hex(XXH128_hash_t hash) {
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, hash);
  return hex({reinterpret_cast<const char*>(bytes.digest), sizeof(bytes.digest)});
}

}  // namespace

struct Xxh3::State {
  XXH3_state_t xxh;  // the same whatever instructions update it
  bool is_wide = __builtin_cpu_supports("avx2") != 0;
};

Xxh3::Xxh3() : state_(std::make_unique<State>()) {
  CHECK(XXH3_128bits_reset(&state_->xxh) == XXH_OK);
}

Xxh3::~Xxh3() = default;

void Xxh3::add(std::string_view bytes) {
  if (state_->is_wide) return xxh3_update_avx2(&state_->xxh, bytes.data(), bytes.size());
  CHECK(XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size()) == XXH_OK);
}

std::string Xxh3::hex_digest() const { return canonical_hex(XXH3_128bits_digest(&state_->xxh)); }

std::string xxh3_hex(std::string_view bytes) {
  return canonical_hex(XXH3_128bits(bytes.data(), bytes.size()));
}

}  // namespace shanty::ckpt
