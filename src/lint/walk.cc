#include "lint/walk.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>

#include <unistd.h>

#include <fmt/format.h>

#include "base/units.h"
#include "lint/kind.h"
#include "lint/parallel.h"
#include "os/files.h"
#include "text/utf8.h"

namespace shanty::lint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSkippedDirectories[] = {
    "node_modules",  "vendor", "third_party", "__pycache__", "site-packages",
    "dist-packages", "venv",   "env",         "build",       "dist",
};

bool is_skipped(std::string_view name) {
  if (!name.empty() && name[0] == '.') return true;
  return std::find(std::begin(kSkippedDirectories), std::end(kSkippedDirectories), name) !=
         std::end(kSkippedDirectories);
}

struct Named {
  std::string path;
  bool is_explicit = false;
};

// Depth first, in the order of names. Links are not followed into directories.
Status collect_below(const std::string& directory, int depth, std::vector<Named>& out) {
  if (depth > kMaxDirectoryDepth) return {};
  for (const std::string& name : TRY(list_directory(directory))) {
    const std::string path = directory == "." ? name : (fs::path(directory) / name).string();
    std::error_code error;
    const fs::file_status status = fs::symlink_status(path, error);
    if (error) continue;
    if (fs::is_directory(status)) {
      if (!is_skipped(name)) TRY_STATUS(collect_below(path, depth + 1, out));
      continue;
    }
    const bool is_file =
        fs::is_regular_file(status) || (fs::is_symlink(status) && fs::is_regular_file(path, error));
    if (!is_file || name[0] == '.' || !may_be_source(name)) continue;
    if (out.size() == kMaxSources) {
      return Error{fmt::format("more than {} files in {}; name a smaller part of it", kMaxSources,
                               printable(directory))};
    }
    out.push_back({path, false});
  }
  return {};
}

Result<std::string> read_all(int fd) {
  std::string text;
  char buffer[1 << 16];
  while (text.size() <= kMaxSourceBytes) {
    const ssize_t size = read(fd, buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return errno_error("cannot read standard input");
    if (size == 0) return text;
    text.append(buffer, static_cast<size_t>(size));
  }
  return Error{fmt::format("standard input is larger than {}", format_bytes(kMaxSourceBytes))};
}

// What came of one file: a source, a reason why there is none, or neither.
struct Taken {
  std::optional<Source> source;
  std::string problem;
};

// As PowerShell writes what it is told to redirect.
bool is_utf16(std::string_view text) {
  return text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff");
}

Taken take(const Named& named) {
  auto text = read_file(named.path, kMaxSourceBytes);
  if (!text.ok()) return {.source = {}, .problem = text.error().message};
  if (is_utf16(*text))
    return {.source = {}, .problem = printable(named.path) + " is UTF-16; save it as UTF-8"};
  auto kind = kind_of(named.path, *text);
  if (!kind && named.is_explicit) kind = kind_of("-", *text);  // "fsdp.yaml-template"
  if (!kind) {
    return {.source = {},
            .problem = named.is_explicit
                           ? printable(named.path) +
                                 " is no manifest, Dockerfile, script or job file that is known"
                           : ""};
  }
  return {.source = Source{named.path, std::move(*text), *kind}, .problem = ""};
}

Result<std::vector<Named>> collect_names(const std::vector<std::string>& paths) {
  std::vector<Named> names;
  for (const std::string& path : paths) {
    if (path == "-") continue;
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (error || !fs::exists(status)) {
      return errno_error("cannot read " + printable(path), error ? error.value() : ENOENT);
    }
    if (fs::is_directory(status)) {
      TRY_STATUS(collect_below(path, 1, names));
    } else {
      names.push_back({path, true});
    }
  }
  return names;
}

}  // namespace

Result<Walked> collect_sources(const std::vector<std::string>& paths, int standard_input) {
  const std::vector<Named> names = TRY(collect_names(paths));
  std::vector<Taken> taken(names.size());
  for_each_index(names.size(), [&](size_t i) { taken[i] = take(names[i]); });
  Walked walked;
  size_t bytes = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!taken[i].problem.empty() && names[i].is_explicit) return Error{taken[i].problem};
    if (!taken[i].problem.empty()) walked.left_out.push_back(taken[i].problem);
    if (!taken[i].source) continue;
    bytes += taken[i].source->text.size();
    if (bytes > kMaxTotalBytes) {
      return Error{fmt::format("more than {} of text; name a smaller part of it",
                               format_bytes(kMaxTotalBytes))};
    }
    walked.sources.push_back(std::move(*taken[i].source));
  }
  if (std::find(paths.begin(), paths.end(), "-") != paths.end()) {
    std::string text = TRY(read_all(standard_input));
    const auto kind = kind_of("-", text);
    if (!kind) return Error{"standard input is no manifest, Dockerfile, script or job file"};
    walked.sources.push_back({"<stdin>", std::move(text), *kind});
  }
  return walked;
}

}  // namespace shanty::lint
