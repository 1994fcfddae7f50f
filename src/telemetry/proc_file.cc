#include "telemetry/proc_file.h"

#include <fcntl.h>
#include <unistd.h>

#include "os/fd.h"

namespace shanty {

std::string read_start(const std::string& path, size_t limit_bytes) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return {};
  std::string text(limit_bytes, '\0');
  const ssize_t n = ::read(fd.get(), text.data(), text.size());
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return text;
}

}  // namespace shanty
