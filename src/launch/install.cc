#include "launch/install.h"

#include <sys/stat.h>

#include <cerrno>

#include "os/files.h"
#include "os/process.h"

namespace shanty {
namespace {

constexpr size_t kMaxProgramBytes = 256u << 20;

}  // namespace

Status install_program(const std::string& directory) {
  const std::string source = TRY(own_executable());
  const std::string program = TRY(read_file(source, kMaxProgramBytes));
  TRY_STATUS(make_directories(directory));
  const std::string target = directory + "/shanty";
  TRY_STATUS(write_file_atomically(target, program));
  if (::chmod(target.c_str(), 0755) != 0) return errno_error("making " + target + " executable");
  return {};
}

}  // namespace shanty
