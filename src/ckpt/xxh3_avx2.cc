#include "ckpt/xxh3_avx2.h"

// This file is compiled for AVX2, so it includes nothing whose inline functions other files share:
// the linker might take these for all.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wconversion"
#define XXH_INLINE_ALL
#include <xxhash.h>
#pragma GCC diagnostic pop

namespace shanty::ckpt {

void xxh3_update_avx2(void* state, const void* data, size_t size) {
  XXH3_128bits_update(static_cast<XXH3_state_t*>(state), data, size);  // fails for null only
}

}  // namespace shanty::ckpt
