#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/diagnostic.h"

namespace shanty {

// Where something stands in a text: both count from 1, columns are characters.
struct Place {
  int line = 0;
  int column = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

struct YamlKey {
  std::string text;
  Place place;
};

// A value of a YAML document that knows its place. Nothing is interpreted but null: numbers and
// booleans stay text until somebody asks for them.
struct YamlNode {
  enum class Kind { kNull, kScalar, kSequence, kMapping };

  Kind kind = Kind::kNull;
  Place place;
  std::string text;             // of a scalar
  bool is_quoted = false;       // a scalar that can only be text
  std::vector<YamlNode> items;  // of a sequence, or the values of a mapping
  std::vector<YamlKey> keys;    // of a mapping, one for each item

  // The first value under `key` of a mapping, else null. Valid while the node is.
  const YamlNode* find(std::string_view key) const;
  // "text", "a list", "a mapping", "nothing": for messages.
  std::string_view kind_name() const;
};

// What a text may cost. The defaults suit files that people write by hand.
struct YamlLimits {
  size_t bytes = 1u << 20;
  size_t depth = 32;
  size_t nodes = 10'000;
  size_t scalar_bytes = 64u << 10;
  size_t documents = 1;
  // All of YAML that manifests use: anchors, aliases and merge keys (an alias is a copy that counts
  // towards `nodes`, its text towards kMaxAliasBytes, its places are those of what was copied), and
  // control characters that are escaped, as of a script in a ConfigMap.
  bool aliases = false;
};
// How much text all aliases of a file may stand for.
inline constexpr size_t kMaxAliasBytes = 4u << 20;
// `YamlLimits::depth` may not exceed this: the tree is read by recursion.
inline constexpr size_t kMaxYamlDepth = 200;

struct ParsedYaml {
  std::vector<YamlNode> documents;
  // Duplicate keys leave the tree usable; any other error leaves only the documents before it.
  std::vector<Diagnostic> diagnostics;
};

// Reads all documents of `text` (UTF-8, with or without a byte order mark). Keys that are not text,
// tags beyond YAML's core ones and, unless limits.aliases, anchors, aliases and merge keys are
// refused. Memory is bounded by a small multiple of limits.bytes.
ParsedYaml parse_documents(std::string_view text, const std::string& file_name,
                           const YamlLimits& limits = {});

}  // namespace shanty
