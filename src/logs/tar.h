#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "logs/byte_source.h"

namespace shanty {

bool is_tar(std::string_view head);

// Reads a tar archive (ustar, GNU long names, pax paths) as a stream and hands out its files one
// after the other; what `each` does not read of one is passed over. Links, devices and the like are
// left out. Nothing is written anywhere, so names cannot do harm.
inline constexpr uint64_t kMaxTarFiles = 1'000'000;
Status read_tar(ByteSource& archive,
                const std::function<void(const std::string& name, ByteSource& content)>& each);

}  // namespace shanty
