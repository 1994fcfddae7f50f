#include "base/result.h"

#include <cerrno>
#include <cstring>

namespace shanty {

Error errno_error(const std::string& what) { return errno_error(what, errno); }

Error errno_error(const std::string& what, int error_number) {
  return Error{what + ": " + std::strerror(error_number)};
}

}  // namespace shanty
