#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace shanty {

// The files of python/ that workers need, compiled into the program (cmake/embed.cmake).
struct EmbeddedFile {
  std::string_view path;  // relative to python/
  std::string_view content;
};
extern const EmbeddedFile kEmbeddedPython[];
extern const size_t kEmbeddedPythonCount;

// Writes them all under `directory`. Not durable on purpose: they are only needed for a while.
Status unpack_python(const std::string& directory);

}  // namespace shanty
