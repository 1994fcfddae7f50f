#pragma once

#include <cstddef>
#include <string>

#include "doctor/diagnose.h"

namespace shanty {

struct VerdictStyle {
  bool color = false;
  size_t width = 0;  // columns; 0: never wrap
};

// The verdict for people, for programs (stable: docs/doctor.md), for an issue tracker, and as one
// page that loads nothing.
std::string verdict_text(const Diagnosis& diagnosis, VerdictStyle style = {});
std::string verdict_json(const Diagnosis& diagnosis);
std::string verdict_markdown(const Diagnosis& diagnosis);
std::string verdict_html(const Diagnosis& diagnosis);

// The same diagnosis with names of nodes and pods, addresses, home directories and what looks like
// a secret replaced, each by the same word wherever it occurs.
Diagnosis redacted(const Diagnosis& diagnosis);

}  // namespace shanty
