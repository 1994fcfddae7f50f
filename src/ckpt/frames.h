#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace shanty::ckpt {

constexpr size_t kMaxFrameBytes = size_t{256} << 20;
constexpr size_t kMaxMessageBytes = size_t{4} << 30;

// Blocks for one message of docs/formats/checkpoint-engine.md. nullopt: the other side has hung up.
Result<std::optional<std::string>> receive_message(int socket);
// In frames of at most `frame_bytes`. `fd` >= 0 travels with the first byte.
Status send_message(int socket, std::string_view body, int fd = -1,
                    size_t frame_bytes = kMaxFrameBytes);

}  // namespace shanty::ckpt
