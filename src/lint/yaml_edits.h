#pragma once

#include <optional>
#include <string_view>

#include "causes/finding.h"
#include "lint/text_places.h"
#include "text/yaml_tree.h"

namespace shanty::lint {

// Edits of a YAML text that keep its layout. Nothing where the text does not stand as simply as
// the edit needs: then a finding has its fix in words only.

// The scalar becomes `text`, which is put in as it is (quoted by the caller where needed).
std::optional<Edit> replace_scalar(const TextPlaces& places, const YamlNode& scalar,
                                   std::string_view text);
// The key becomes `text`.
std::optional<Edit> replace_key(const TextPlaces& places, const YamlKey& key,
                                std::string_view text);
// `text`, such as "dnsPolicy: Default", becomes a sibling before `key`. Its lines are indented as
// the key is; in a flow mapping it may have one line only.
std::optional<Edit> insert_before(const TextPlaces& places, const YamlKey& key,
                                  std::string_view text);
// The mapping `text` becomes an item before the first one of a block list of mappings.
std::optional<Edit> insert_item(const TextPlaces& places, const YamlNode& list,
                                std::string_view text);

}  // namespace shanty::lint
