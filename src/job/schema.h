#pragma once

#include <string>

namespace shanty {

// The JSON Schema (draft 2020-12) of the job file, for editors.
std::string job_schema_json();

// The reference table of docs/job-file.md, in Markdown.
std::string job_keys_markdown();

}  // namespace shanty
