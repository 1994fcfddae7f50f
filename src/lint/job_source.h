#pragma once

#include "job/parse.h"
#include "lint/environment.h"
#include "lint/source.h"
#include "text/yaml_tree.h"

namespace shanty::lint {

// A job file: what it says, and where it says it.
struct JobSource {
  const Source* source = nullptr;
  ParsedJob parsed;
  YamlNode root;
  Environment env;  // run.env
};

JobSource read_job_source(const Source& source);

}  // namespace shanty::lint
