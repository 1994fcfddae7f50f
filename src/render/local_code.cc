#include "render/local_code.h"

#include <fmt/format.h>

#include "os/files.h"
#include "text/utf8.h"

namespace shanty {
namespace {

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

// A path that leads out of the code's directory cannot be put into it.
bool stays_inside(const std::string& path) {
  return !path.starts_with('/') && ("/" + path + "/").find("/../") == std::string::npos;
}

Result<std::string> read_one(const std::string& path, const std::string& from,
                             const std::string& beside) {
  const std::string first = from.empty() ? path : from + "/" + path;
  auto content = read_file(file_exists(first) ? first : beside + path, kMaxCodeBytes);
  if (!content.ok()) return content;
  if (find_invalid_utf8(*content) || content->find('\0') != std::string::npos) {
    return Error{path + " is not UTF-8 text"};
  }
  return content;
}

}  // namespace

LocalCode read_local_code(const Job& job, const std::string& job_file) {
  const auto fail = [](std::string problem) { return LocalCode{{}, std::move(problem)}; };
  if (job.run.script.empty()) return fail("run.module is no file that could travel in a ConfigMap");
  std::vector<std::string> paths = {job.run.script};
  paths.insert(paths.end(), job.code.files.begin(), job.code.files.end());
  if (paths.size() > kMaxCodeFiles) {
    return fail(fmt::format("code.files are more than {}", kMaxCodeFiles));
  }
  LocalCode out;
  size_t bytes = 0;
  for (const std::string& path : paths) {
    if (!stays_inside(path)) {
      return fail(
          fmt::format("{} lies outside the job's directory, so a ConfigMap cannot hold it "
                      "under that name",
                      path));
    }
    auto content = read_one(path, job.run.working_dir, directory_of(job_file));
    if (!content.ok()) return fail("the script is not here: " + content.error().message);
    bytes += content->size();
    out.files.push_back({path, std::move(*content)});
  }
  if (bytes <= kMaxCodeBytes) return out;
  return fail(fmt::format("the script and code.files are {} bytes, a ConfigMap may hold {}", bytes,
                          kMaxCodeBytes));
}

}  // namespace shanty
