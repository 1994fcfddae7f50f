#pragma once

#include <cstddef>
#include <cstdint>

#include "logs/byte_source.h"

namespace shanty {

// The next `size` bytes of an archive: those of one file in it.
class Part : public ByteSource {
 public:
  Part(ByteSource& archive, uint64_t size) : archive_(archive), left_(size) {}
  Result<size_t> read(char* out, size_t capacity) override;

 private:
  ByteSource& archive_;
  uint64_t left_;
};

// Fewer than `size` bytes only at the end.
Result<size_t> read_fully(ByteSource& source, char* out, size_t size);
// Reads what is left of it.
Status pass_over(ByteSource& source);

}  // namespace shanty
