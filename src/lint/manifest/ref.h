#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "text/yaml_tree.h"

namespace shanty::lint {

// A value of a document, or nothing: what is below nothing is nothing, so that a path into an
// object that may end anywhere is written as one expression. Borrows the tree.
class Ref {
 public:
  Ref() = default;
  Ref(const YamlNode* node) : node_(node) {}   // NOLINT: implicit by design
  Ref(const YamlNode& node) : node_(&node) {}  // NOLINT: implicit by design

  explicit operator bool() const { return node_ != nullptr; }
  const YamlNode* node() const { return node_; }

  Ref operator[](std::string_view key) const {
    return node_ == nullptr ? Ref() : Ref(node_->find(key));
  }
  // Of a scalar, else empty.
  std::string_view text() const {
    return is(YamlNode::Kind::kScalar) ? std::string_view(node_->text) : std::string_view();
  }
  bool is(YamlNode::Kind kind) const { return node_ != nullptr && node_->kind == kind; }
  bool is_mapping() const { return is(YamlNode::Kind::kMapping); }
  bool is_sequence() const { return is(YamlNode::Kind::kSequence); }
  // A flag that is set, as Kubernetes reads YAML.
  bool is_true() const { return !text().empty() && !node_->is_quoted && text() == "true"; }
  // The items of a list, or the values of a mapping.
  std::span<const YamlNode> items() const {
    return node_ == nullptr ? std::span<const YamlNode>() : std::span(node_->items);
  }
  std::span<const YamlKey> keys() const {
    return node_ == nullptr ? std::span<const YamlKey>() : std::span(node_->keys);
  }
  // The key of a mapping, for its place.
  const YamlKey* key(std::string_view name) const;
  // A whole number; nothing for anything else.
  std::optional<int64_t> integer() const;

 private:
  const YamlNode* node_ = nullptr;
};

// The item of a list of mappings whose `key` has that text.
Ref find_item(Ref list, std::string_view key, std::string_view text);

// Text that something else fills in before Kubernetes sees it: "${TAG}", "{{ .Values.tag }}",
// "<your-image>".
bool is_placeholder(std::string_view text);

}  // namespace shanty::lint
