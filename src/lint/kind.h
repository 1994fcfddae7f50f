#pragma once

#include <optional>
#include <string_view>

#include "lint/source.h"

namespace shanty::lint {

// Whether a file of that name may be something to lint, before it is read.
bool may_be_source(std::string_view name);
// What a text is, by its name and what it says; nothing: nothing to lint.
std::optional<SourceKind> kind_of(std::string_view name, std::string_view text);

}  // namespace shanty::lint
