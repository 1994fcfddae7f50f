#include "launch/embedded_python.h"
#include "os/files.h"

namespace shanty {

Status unpack_python(const std::string& directory) {
  for (size_t i = 0; i < kEmbeddedPythonCount; ++i) {
    const EmbeddedFile& file = kEmbeddedPython[i];
    const std::string path = directory + "/" + std::string(file.path);
    TRY_STATUS(make_directories(path.substr(0, path.rfind('/'))));
    TRY_STATUS(replace_file(path, file.content));
  }
  return {};
}

}  // namespace shanty
