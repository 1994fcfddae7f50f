#include <algorithm>
#include <string>

#include <unistd.h>

#include <CLI/CLI.hpp>

#include "base/clock.h"
#include "cli/cli_app.h"
#include "cli/exit_codes.h"
#include "cli/full_screen.h"
#include "cli/on/on.h"
#include "cli/output.h"
#include "cli/run_choice.h"
#include "cli/top_view.h"
#include "text/terminal.h"

namespace shanty {
namespace {

constexpr Duration kRefresh = std::chrono::seconds(1);
constexpr size_t kHeadRows = 6;  // around the ranks

int run_top(int argc, char** argv);

}  // namespace

extern const Verb kTopVerb = {
    .name = "top",
    .summary = "show rank by rank what a job is doing now",
    .examples =
        "  shanty top                  the newest run, until q is pressed\n"
        "  shanty top train --once     one picture of the newest run of the job \"train\"\n"
        "  shanty top train --on kubernetes   of a job on a cluster",
    .hidden = false,
    .run = run_top};

namespace {

LiveState live_of(const RunDir& run) {
  auto live = read_live(run.live_json());
  return live ? std::move(*live) : LiveState();  // there is none before the job formed
}

std::string picture(const RunDir& run, const TopOptions& options) {
  return render_top(summarize_run(run), live_of(run), system_clock().unix_time_ns(), options);
}

int show_once(const RunDir& run) {
  const TerminalTraits traits = terminal_traits(STDOUT_FILENO);
  TopOptions options{.width = static_cast<size_t>(traits.width), .colour = traits.colour};
  // A program or a file takes lines of any width.
  if (!traits.tty) options.width = std::string::npos;
  Output().write(STDOUT_FILENO, picture(run, options));
  return kExitDone;
}

int show_until_left(const RunDir& run) {
  std::string last;
  {
    FullScreen screen;
    bool over = false;
    do {
      const TerminalTraits traits = terminal_traits(STDOUT_FILENO);
      const size_t rows = FullScreen::rows();
      const size_t room = rows > kHeadRows ? rows - kHeadRows : 1;
      last = picture(run, {.width = static_cast<size_t>(traits.width),
                           .max_ranks = std::min<size_t>(room, TopOptions().max_ranks),
                           .colour = traits.colour});
      screen.draw(last);
      over = !run.is_running();
    } while (!over && screen.wait(kRefresh));
  }
  Output().write(STDOUT_FILENO, last);
  return kExitDone;
}

int run_top(int argc, char** argv) {
  if (asks_for_cluster(argc, argv)) return top_on(kTopVerb, argc, argv);
  std::string spec;
  bool once = false;
  bool json = false;
  const AppPtr app = make_app(kTopVerb);
  add_run_argument(*app, spec);
  app->add_flag("--once", once, "one picture, no refresh");
  app->add_flag("--json", json, "the job's live state once, as in live.json");
  if (const auto code = parse_arguments(*app, argc, argv)) return *code;

  const auto run = choose_run("top", spec);
  if (!run) return kExitUsage;
  if (json) {
    Output().write(STDOUT_FILENO, encode_live(live_of(*run)));
    return kExitDone;
  }
  const bool interactive = terminal_traits(STDOUT_FILENO).tty && !once && run->is_running();
  return interactive ? show_until_left(*run) : show_once(*run);
}

}  // namespace
}  // namespace shanty
