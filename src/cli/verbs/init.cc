#include <cstdio>
#include <filesystem>
#include <memory>

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/result.h"
#include "cli/cli_app.h"
#include "cli/exit_codes.h"
#include "cli/init_text.h"
#include "cluster/cluster.h"
#include "job/parse.h"
#include "text/utf8.h"

namespace shanty {
namespace {

int run_init(int argc, char** argv);

}  // namespace

extern const Verb kInitVerb = {.name = "init",
                               .summary = "write a job file for a training script",
                               .examples =
                                   "  shanty init train.py              writes job.yaml\n"
                                   "  shanty init src/train.py -o -     prints it instead",
                               .hidden = false,
                               .run = run_init};

namespace {

constexpr size_t kMaxScriptBytes = 4u << 20;

Result<std::string> read_script(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"),
                                                             std::fclose);
  if (file == nullptr) return errno_error("cannot read " + path);
  std::string text(kMaxScriptBytes, '\0');
  const size_t size = std::fread(text.data(), 1, text.size(), file.get());
  if (std::ferror(file.get()) != 0) return errno_error("cannot read " + path);
  text.resize(size);
  if (text.find('\0') != text.npos) return Error{path + " is not a text file"};
  return text;
}

// Creates the file exclusively unless `replace`: what is there may be somebody's work.
Status write_new_file(const std::string& path, const std::string& text, bool replace) {
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (replace ? O_TRUNC : O_EXCL);
  const int fd = open(path.c_str(), flags, 0644);
  if (fd < 0 && errno == EEXIST) {
    return Error{path + " exists; --force replaces it, -o FILE chooses another name"};
  }
  if (fd < 0) return errno_error("cannot write " + path);
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t size = write(fd, text.data() + done, text.size() - done);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    done += static_cast<size_t>(size);
  }
  const int write_error = errno;
  const bool is_closed = close(fd) == 0;
  if (done < text.size()) return errno_error("cannot write " + path, write_error);
  return is_closed ? Status() : Status(errno_error("cannot write " + path));
}

int fail(const std::string& message, int code) {
  fmt::print(stderr, "shanty init: {}\n", message);
  return code;
}

int run_init(int argc, char** argv) {
  std::string script;
  std::string output = "job.yaml";
  bool force = false;
  const AppPtr app = make_app(kInitVerb);
  app->add_option("script", script, "the training script")->required()->type_name("SCRIPT");
  app->add_option("-o,--output", output, "where to write; - prints")->capture_default_str();
  app->add_flag("--force", force, "replace an existing file");
  if (const auto code = parse_arguments(*app, argc, argv)) return *code;
  const auto text = read_script(script);
  if (!text.ok()) return fail(text.error().message, kExitUsage);
  if (find_invalid_utf8(script) || has_control_character(script)) {
    return fail("the script's name cannot be written in YAML", kExitUsage);
  }
  const Cluster cluster = read_cluster();
  const std::string job =
      initial_job_file({.script_path = script, .script_text = *text, .cluster = cluster});
  if (output == "-") {
    fmt::print("{}", job);
    return kExitDone;
  }
  const Status written = write_new_file(output, job, force);
  if (!written.ok()) return fail(written.error().message, kExitUsage);
  fmt::print(stderr, "wrote {}; next: shanty plan {}, shanty run {}\n", output, output, output);
  return kExitDone;
}

}  // namespace
}  // namespace shanty
