#include "lint/syntax/tree.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <tree_sitter/api.h>

extern "C" const TSLanguage* tree_sitter_python();
extern "C" const TSLanguage* tree_sitter_bash();

namespace shanty::lint {

namespace {

template <auto Delete>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    Delete(object);
  }
};
using Parser = std::unique_ptr<TSParser, Deleter<ts_parser_delete>>;
using Parsed = std::unique_ptr<TSTree, Deleter<ts_tree_delete>>;

const TSLanguage* language_of(Grammar grammar) {
  return grammar == Grammar::kPython ? tree_sitter_python() : tree_sitter_bash();
}

}  // namespace

// Walks tree-sitter's tree once and writes it down flat.
class TreeReader {
 public:
  TreeReader(SyntaxTree& tree, Grammar grammar, const SyntaxLimits& limits)
      : tree_(tree), grammar_(grammar), limits_(limits) {}

  Status read(const TSTree& parsed) {
    name_symbols();
    TSTreeCursor cursor = ts_tree_cursor_new(ts_tree_root_node(&parsed));
    const Status status = walk(cursor);
    ts_tree_cursor_delete(&cursor);
    return status;
  }

 private:
  void name_symbols() {
    const TSLanguage* language = language_of(grammar_);
    for (uint32_t i = 0; i < ts_language_symbol_count(language); ++i) {
      tree_.kinds_.push_back(ts_language_symbol_name(language, static_cast<TSSymbol>(i)));
    }
    tree_.kinds_.push_back("ERROR");
    tree_.fields_.push_back("");
    for (uint32_t i = 1; i <= ts_language_field_count(language); ++i) {
      tree_.fields_.push_back(ts_language_field_name_for_id(language, static_cast<TSFieldId>(i)));
    }
  }

  Status walk(TSTreeCursor& cursor) {
    // The node written for each level of the cursor; a level that is left out has its parent's.
    std::vector<std::pair<NodeId, bool>> path;
    for (;;) {
      const NodeId above = path.empty() ? kNoNode : path.back().first;
      const TSNode node = ts_tree_cursor_current_node(&cursor);
      const TSFieldId field = ts_tree_cursor_current_field_id(&cursor);
      note_broken(node);
      const bool kept = is_kept(node, field);
      if (kept) add(node, field, above);
      if (tree_.nodes_.size() > limits_.nodes) {
        return Error{fmt::format("it has more than {} parts", limits_.nodes)};
      }
      path.emplace_back(kept ? tree_.size() - 1 : above, kept);
      if (path.size() > limits_.depth) {
        return Error{fmt::format("it is nested more than {} levels deep", limits_.depth)};
      }
      if (ts_tree_cursor_goto_first_child(&cursor)) continue;
      for (;;) {
        close(path);
        if (ts_tree_cursor_goto_next_sibling(&cursor)) break;
        if (!ts_tree_cursor_goto_parent(&cursor)) return {};
      }
    }
  }

  void close(std::vector<std::pair<NodeId, bool>>& path) {
    const auto [node, kept] = path.back();
    path.pop_back();
    if (kept) tree_.nodes_[node].subtree_end = tree_.size();
  }

  bool is_kept(TSNode node, TSFieldId field) const {
    if (ts_node_is_extra(node) && !ts_node_is_error(node)) return false;
    return grammar_ == Grammar::kShell || ts_node_is_named(node) || field != 0;
  }

  void note_broken(TSNode node) {
    if (!ts_node_is_error(node) && !ts_node_is_missing(node)) return;
    tree_.broken_ = std::min<size_t>(tree_.broken_, ts_node_start_byte(node));
  }

  void add(TSNode node, TSFieldId field, NodeId parent) {
    const size_t symbol = std::min<size_t>(ts_node_symbol(node), tree_.kinds_.size() - 1);
    tree_.nodes_.push_back({.begin = ts_node_start_byte(node),
                            .end = ts_node_end_byte(node),
                            .parent = parent,
                            .subtree_end = tree_.size() + 1,
                            .kind = static_cast<uint16_t>(symbol),
                            .field = field});
  }

  SyntaxTree& tree_;
  Grammar grammar_;
  const SyntaxLimits& limits_;
};

Result<SyntaxTree> SyntaxTree::parse(std::string_view text, Grammar grammar,
                                     const SyntaxLimits& limits) {
  if (text.size() > limits.bytes) {
    return Error{fmt::format("it has {} bytes, more than {}", text.size(), limits.bytes)};
  }
  const Parser parser(ts_parser_new());
  ts_parser_set_language(parser.get(), language_of(grammar));
  ts_parser_set_timeout_micros(parser.get(), static_cast<uint64_t>(limits.time.count()) * 1000);
  const Parsed parsed(ts_parser_parse_string(parser.get(), nullptr, text.data(),
                                             static_cast<uint32_t>(text.size())));
  if (parsed == nullptr) {
    return Error{fmt::format("reading it took longer than {} ms", limits.time.count())};
  }
  SyntaxTree tree;
  tree.text_ = text;
  tree.nodes_.reserve(text.size() / 4);
  TRY_STATUS(TreeReader(tree, grammar, limits).read(*parsed));
  return tree;
}

std::string_view SyntaxTree::text(NodeId node) const {
  if (node == kNoNode) return {};
  return text_.substr(nodes_[node].begin, nodes_[node].end - nodes_[node].begin);
}

Place SyntaxTree::place(NodeId node) const { return place_of(begin(node)); }

Place SyntaxTree::place_of(size_t offset) const {
  const std::string_view before = text_.substr(0, offset);
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  const std::string_view line = before.substr(line_start);
  const auto is_start = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  return {.line = 1 + static_cast<int>(std::count(before.begin(), before.end(), '\n')),
          .column = 1 + static_cast<int>(std::count_if(line.begin(), line.end(), is_start))};
}

NodeId SyntaxTree::child(NodeId node, std::string_view field) const {
  if (node == kNoNode) return kNoNode;
  for (NodeId at = first_child(node); at != kNoNode; at = next_sibling(at)) {
    if (in_field(at, field)) return at;
  }
  return kNoNode;
}

NodeId SyntaxTree::next_sibling(NodeId node) const {
  const NodeId next = nodes_[node].subtree_end;
  if (nodes_[node].parent == kNoNode || next >= nodes_[nodes_[node].parent].subtree_end) {
    return kNoNode;
  }
  return next;
}

std::vector<NodeId> SyntaxTree::children(NodeId node) const {
  std::vector<NodeId> out;
  if (node == kNoNode) return out;
  for (NodeId at = first_child(node); at != kNoNode; at = next_sibling(at)) out.push_back(at);
  return out;
}

NodeId SyntaxTree::ancestor(NodeId node, std::string_view kind) const {
  for (NodeId at = parent(node); at != kNoNode; at = parent(at)) {
    if (this->kind(at) == kind) return at;
  }
  return kNoNode;
}

}  // namespace shanty::lint
