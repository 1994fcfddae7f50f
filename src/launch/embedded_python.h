#pragma once

#include <cstddef>
#include <string_view>

namespace shanty {

// The files of python/ that workers need, compiled into the program (cmake/embed.cmake).
struct EmbeddedFile {
  std::string_view path;  // relative to python/
  std::string_view content;
};
extern const EmbeddedFile kEmbeddedPython[];
extern const size_t kEmbeddedPythonCount;

}  // namespace shanty
