#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "job/keys.h"
#include "text/yaml_tree.h"

namespace shanty {

// Reads the value of `key` from `node` into the slot. The error says what was expected and what
// was found; the slot is unchanged then. Not for sections and lists.
Status read_value(const Key& key, const YamlNode& node, const Slot& slot);

// Whether the word auto stands for an empty slot of this type.
bool accepts_auto(KeyType type);

// What a value of this key looks like, for messages and documentation: "a size such as 16Gi, or
// auto".
std::string expectation(const Key& key, const Slot& slot);

// "1 to 1,024": the values allowed, or "" where anything of the type is.
std::string range_text(const Key& key);

// The value in a slot as a job file would write it, or "" when it is not told ("auto" for keys
// that accept the word). Lists and mappings give "".
std::string slot_text(const Key& key, const Slot& slot);

}  // namespace shanty
