#include "logs/part.h"

#include <algorithm>

namespace shanty {

Result<size_t> Part::read(char* out, size_t capacity) {
  const size_t wanted = static_cast<size_t>(std::min<uint64_t>(capacity, left_));
  if (wanted == 0) return size_t{0};
  const size_t got = TRY(archive_.read(out, wanted));
  if (got == 0) return Error{"the archive ends in the middle"};
  left_ -= got;
  return got;
}

Result<size_t> read_fully(ByteSource& source, char* out, size_t size) {
  size_t got = 0;
  while (got < size) {
    const size_t more = TRY(source.read(out + got, size - got));
    if (more == 0) break;
    got += more;
  }
  return got;
}

Status pass_over(ByteSource& source) {
  char buffer[16 * 1024];
  while (TRY(source.read(buffer, sizeof buffer)) > 0) {
  }
  return {};
}

}  // namespace shanty
