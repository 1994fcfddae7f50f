#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "logs/byte_source.h"

namespace shanty {

inline constexpr size_t kMaxWalkFiles = 200'000;
inline constexpr size_t kMaxWalkDepth = 32;
inline constexpr size_t kMaxArchiveDepth = 3;  // an archive in an archive in an archive

// A file found below a path: on disk, in an archive, or standard input.
struct FoundFile {
  std::string name;  // as evidence names it
  std::string path;  // on disk and not compressed, else empty
  int64_t modified_unix_ns = 0;
  PeekSource& bytes;  // decompressed
};

struct WalkOptions {
  std::function<void(FoundFile&)> file;
  // Asked before a directory is read; false leaves it out. May be empty.
  std::function<bool(const std::string& path)> directory;
  std::function<void(std::string)> note;  // what could not be read
};

// Visits what `path` stands for, in the order of the names: a file, a tree, a tar archive
// (compressed or not), "-" for standard input. Links inside a tree are followed once. Fails only
// when `path` itself is not there.
Status walk(const std::string& path, const WalkOptions& options);

}  // namespace shanty
