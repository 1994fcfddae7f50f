#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "ckpt/export.h"
#include "ckpt/lease.h"
#include "ckpt/reader.h"
#include "cli/ckpt_verbs.h"
#include "cli/exit_codes.h"
#include "cli/output.h"
#include "launch/embedded_python.h"
#include "os/files.h"
#include "os/process.h"
#include "text/json_fields.h"

namespace shanty {
namespace {

// A directory that is gone with it.
class TemporaryDirectory {
 public:
  static Result<TemporaryDirectory> make() {
    std::string path = (std::filesystem::temp_directory_path() / "shanty-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) return errno_error("making a temporary directory");
    return TemporaryDirectory(path);
  }
  ~TemporaryDirectory() {
    if (!path_.empty()) discard(remove_tree(path_), "it is temporary");
  }
  TemporaryDirectory(TemporaryDirectory&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Formats that only Python knows: the package's own converter, by the user's torch.
Result<int> convert_in_python(const CkptArguments& given, const std::vector<std::string>& words) {
  const auto directory = TRY(TemporaryDirectory::make());
  TRY_STATUS(unpack_python(directory.path()));
  auto env = current_environment();
  std::string path = directory.path();
  if (const char* users = std::getenv("PYTHONPATH")) path += std::string(":") + users;
  set_variable(env, "PYTHONPATH", path);
  set_variable(env, "SHANTY_BINARY", TRY(own_executable()));
  std::vector<std::string> argv = {given.python, "-m", "shanty.checkpoint.convert"};
  argv.insert(argv.end(), words.begin(), words.end());
  const pid_t pid = TRY(spawn({.argv = argv, .env = env}));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : kExitInternal;
}

}  // namespace

Result<int> ckpt_export(const CkptArguments& arguments) {
  const std::string directory = TRY(choose_checkpoint(arguments.path, arguments.step));
  if (arguments.format != "safetensors") {
    std::vector<std::string> words = {"export", directory, arguments.other, "--format",
                                      arguments.format};
    if (arguments.optimizer) words.push_back("--optimizer");
    return convert_in_python(arguments, words);
  }
  ckpt::Vfs& vfs = ckpt::posix_vfs();
  const auto lease = ckpt::Lease::take(vfs, directory);
  const auto reader = TRY(ckpt::open_checkpoint(vfs, directory));
  const uint64_t bytes = TRY(ckpt::export_safetensors(
      vfs, *reader,
      {.path = arguments.other, .optimizer = arguments.optimizer, .threads = arguments.threads}));
  Output output;
  if (arguments.json) {
    output.write(STDOUT_FILENO,
                 print_json_pretty(nlohmann::json{
                     {"from", directory}, {"to", arguments.other}, {"bytes", bytes}}));
  } else {
    output.write(STDERR_FILENO,
                 fmt::format("wrote {}, {}\n", arguments.other, format_bytes(bytes)));
  }
  return kExitDone;
}

Result<int> ckpt_import(const CkptArguments& arguments) {
  std::vector<std::string> words = {"import", arguments.path, arguments.other};
  if (arguments.step) words.insert(words.end(), {"--step", std::to_string(*arguments.step)});
  if (arguments.allow_pickle) words.push_back("--allow-pickle");
  if (arguments.json) words.push_back("--json");
  return convert_in_python(arguments, words);
}

}  // namespace shanty
