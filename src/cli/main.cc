#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/exit_codes.h"
#include "cli/output.h"
#include "cli/verb_table.h"

namespace shanty {
namespace {

const Verb* find_verb(std::string_view name) {
  for (size_t i = 0; i < kVerbCount; ++i) {
    if (kVerbs[i]->name == name) return kVerbs[i];
  }
  return nullptr;
}

std::string usage() {
  std::string out =
      "shanty: start a PyTorch job, keep it running, and say why when it isn't\n\n"
      "usage: shanty VERB [OPTIONS]\n\n";
  for (size_t i = 0; i < kVerbCount; ++i) {
    if (!kVerbs[i]->hidden)
      out += fmt::format("  {:<10} {}\n", kVerbs[i]->name, kVerbs[i]->summary);
  }
  out +=
      "\nshanty VERB --help explains a verb. Start here:\n"
      "  shanty run --nproc-per-node 2 train.py\n"
      "  shanty top\n";
  return out;
}

// What is opened later would take the number of a closed standard stream, and get its output.
void open_missing_descriptors() {
  int fd = -1;
  do {
    fd = ::open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) ::close(fd);
}

int run_main(int argc, char** argv) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first == "--version" || first == "version") {
    fmt::print("shanty {}\n", SHANTY_VERSION);
    return kExitDone;
  }
  if (first.empty() || first == "--help" || first == "-h" || first == "help") {
    fmt::print("{}", usage());
    return first.empty() ? kExitUsage : kExitDone;
  }
  const Verb* verb = find_verb(first);
  if (verb == nullptr) {
    fmt::print(stderr, "shanty: unknown verb \"{}\"; the verbs are:\n\n{}", first, usage());
    return kExitUsage;
  }
  return verb->run(argc - 1, argv + 1);
}

// A result that did not get to where it was sent is no success; a reader that had enough is.
int check_stdout(int code) {
  const bool is_whole =
      std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && !Output::lost_some();
  if (is_whole || Output().reader_gone()) return code;
  fmt::print(stderr, "shanty: stdout could not be written whole: is the disk full?\n");
  return code == kExitDone ? kExitEnvironment : code;
}

}  // namespace
}  // namespace shanty

int main(int argc, char** argv) {
  shanty::open_missing_descriptors();
  // Both are errors of a write, which say more than a death.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  return shanty::check_stdout(shanty::run_main(argc, argv));
}
