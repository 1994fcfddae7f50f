#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/yaml_tree.h"

namespace shanty::lint {

enum class Grammar { kPython, kShell };

struct SyntaxLimits {
  size_t bytes = size_t{512} << 10;
  size_t nodes = 500'000;
  size_t depth = 1000;
  std::chrono::milliseconds time{10'000};  // by the clock on the wall: a machine may be busy
};

// A node of a SyntaxTree: its number in reading order, parents before children.
using NodeId = uint32_t;
inline constexpr NodeId kNoNode = UINT32_MAX;

// The syntax of a script as a flat list. Python keeps named nodes and operators; the shell keeps
// its tokens too, since "&" and "|" are nothing else. Comments are left out. It reads what it can:
// see `broken`. The text is the caller's and must outlive the tree.
class SyntaxTree {
 public:
  // Fails where a limit is passed, with a message that names it.
  static Result<SyntaxTree> parse(std::string_view text, Grammar grammar,
                                  const SyntaxLimits& limits = {});

  NodeId size() const { return static_cast<NodeId>(nodes_.size()); }
  std::string_view source() const { return text_; }
  std::string_view kind(NodeId node) const { return kinds_[nodes_[node].kind]; }
  bool is(NodeId node, std::string_view name) const {
    return node != kNoNode && kind(node) == name;
  }
  std::string_view text(NodeId node) const;  // empty for kNoNode
  size_t begin(NodeId node) const { return nodes_[node].begin; }
  size_t end(NodeId node) const { return nodes_[node].end; }
  Place place(NodeId node) const;
  Place place_of(size_t offset) const;

  NodeId parent(NodeId node) const { return nodes_[node].parent; }
  // One past the last node below `node`.
  NodeId subtree_end(NodeId node) const { return nodes_[node].subtree_end; }
  bool contains(NodeId outer, NodeId inner) const {
    return outer <= inner && inner < nodes_[outer].subtree_end;
  }
  // The child in a field of the grammar ("function", "arguments"), or kNoNode.
  NodeId child(NodeId node, std::string_view field) const;
  bool in_field(NodeId node, std::string_view field) const {
    return fields_[nodes_[node].field] == field;
  }
  NodeId first_child(NodeId node) const {
    return node + 1 < subtree_end(node) ? node + 1 : kNoNode;
  }
  NodeId next_sibling(NodeId node) const;
  std::vector<NodeId> children(NodeId node) const;
  // The nearest node above `node` of that kind, or kNoNode.
  NodeId ancestor(NodeId node, std::string_view kind) const;

  // Where the grammar first could not follow the text, or kNoOffset.
  static constexpr size_t kNoOffset = SIZE_MAX;
  size_t broken() const { return broken_; }

 private:
  friend class TreeReader;
  struct Node {
    uint32_t begin, end;
    NodeId parent, subtree_end;
    uint16_t kind, field;
  };
  std::string_view text_;
  std::vector<Node> nodes_;
  std::vector<std::string_view> kinds_;   // the grammar's strings, which live for ever
  std::vector<std::string_view> fields_;  // the first is empty: no field
  size_t broken_ = kNoOffset;
};

}  // namespace shanty::lint
