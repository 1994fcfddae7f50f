#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace shanty::ckpt {

constexpr size_t kMaxFrameBytes = size_t{256} << 20;

// Blocks for one frame of docs/formats/checkpoint-engine.md. nullopt: the other side has hung up.
Result<std::optional<std::string>> receive_frame(int socket);
// `fd` >= 0 travels with its first byte.
Status send_frame(int socket, std::string_view body, int fd = -1);

}  // namespace shanty::ckpt
