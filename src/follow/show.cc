#include "follow/show.h"

#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "os/files.h"
#include "text/json_fields.h"
#include "text/terminal.h"
#include "text/utf8.h"

namespace shanty::follow {
namespace {

void put(int fd, std::string_view bytes) { discard(write_all(fd, bytes), "nobody reads it"); }

std::string shown(std::string_view line) {
  return terminal_traits(STDOUT_FILENO).tty ? printable(line) : std::string(line);
}

}  // namespace

Show::Show(const SessionOptions& options)
    : options_(options),
      progress_([] { return terminal_traits(STDERR_FILENO); }, system_clock(),
                [](std::string_view bytes) { put(STDERR_FILENO, bytes); }) {}

void Show::json_line(std::string_view kind, std::string_view text, const std::string& pod) {
  nlohmann::json line = {
      {"kind", kind}, {"text", text}, {"unix_ns", system_clock().unix_time_ns()}};
  if (!pod.empty()) line["pod"] = pod;
  put(STDOUT_FILENO, print_json(line) + "\n");
}

void Show::lines(const Lines& lines) {
  for (const Line& line : lines) {
    if (options_.json) {
      json_line(line.kind, line.text, line.pod);
    } else if (!options_.quiet) {
      progress_.print(fmt::format("shanty {}  {}\n",
                                  format_local_time_of_day(system_clock().unix_time_ns()),
                                  printable(line.text)));
    }
  }
}

void Show::rank_line(const std::string& pod, std::string_view line) {
  if (options_.keep && !options_.keep(pod, line)) return;
  if (options_.json) return json_line("output", line, pod);
  progress_.around([&] { put(STDOUT_FILENO, shown(line) + "\n"); });
}

void Show::agent_line(const std::string& pod, std::string_view whole, std::string_view text) {
  if (options_.json) return json_line("agent", text, pod);
  if (!options_.quiet) progress_.print(printable(whole) + "\n");
}

void Show::waiting(const std::string& text) {
  if (options_.json || options_.quiet) return;
  // Each change is worth redrawing a line, but not printing another one.
  const bool in_place = terminal_traits(STDERR_FILENO).tty;
  if (!in_place && system_clock().now() < next_waiting_) return;
  next_waiting_ = system_clock().now() + ProgressLine::kPlainEvery;
  progress_.update({.state = text, .text = ""});
}

void Show::progress(const std::string& text) {
  if (options_.json || options_.quiet) return;
  progress_.update({.state = text, .text = ""});
}

void Show::trouble(const std::string& text) {
  if (text == last_trouble_) return;
  last_trouble_ = text;
  lines({{.kind = "warning", .text = text, .pod = ""}});
}

}  // namespace shanty::follow
