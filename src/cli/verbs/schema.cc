#include "job/schema.h"

#include <cstdio>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/cli_app.h"
#include "cli/exit_codes.h"

namespace shanty {
namespace {

int run_schema(int argc, char** argv);

}  // namespace

extern const Verb kSchemaVerb = {
    .name = "schema",
    .summary = "print the JSON Schema of the job file, for editors",
    .examples =
        "  shanty schema > job.schema.json   for an editor to complete and check with\n"
        "  shanty schema --markdown          every key with its default, to read",
    .hidden = false,
    .run = run_schema};

namespace {

int run_schema(int argc, char** argv) {
  bool markdown = false;
  const AppPtr app = make_app(kSchemaVerb);
  app->add_flag("--markdown", markdown, "a table of the keys instead");
  if (const auto code = parse_arguments(*app, argc, argv)) return *code;
  fmt::print("{}", markdown ? job_keys_markdown() : job_schema_json());
  return kExitDone;
}

}  // namespace
}  // namespace shanty
