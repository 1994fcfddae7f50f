#pragma once

#include <vector>

#include <sys/types.h>

#include "base/result.h"
#include "ckpt/reader.h"

namespace shanty::ckpt {

// Reads the wants, checked, into the memory of process `pid`, where each `out` is an address.
Status read_into(pid_t pid, CheckpointReader& reader, const std::vector<Want>& wants, int threads);

}  // namespace shanty::ckpt
