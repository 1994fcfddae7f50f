#pragma once

#include <stddef.h>

namespace shanty::ckpt {

// Adds `size` bytes to `state`, an XXH3_state_t, with AVX2, which the processor must have.
void xxh3_update_avx2(void* state, const void* data, size_t size);

}  // namespace shanty::ckpt
