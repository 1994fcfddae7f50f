#include "text/yaml_tree.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <yaml.h>

#include <fmt/format.h>

#include "base/check.h"
#include "base/units.h"
#include "text/utf8.h"

namespace shanty {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

Place place_at(const yaml_mark_t& mark) {
  return {static_cast<int>(mark.line) + 1, static_cast<int>(mark.column) + 1};
}

Place place_of_offset(std::string_view text, size_t offset) {
  Place place{1, 1};
  for (char c : text.substr(0, offset)) {
    const bool starts = (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    if (c == '\n') {
      place = {place.line + 1, 1};
    } else if (starts) {
      ++place.column;
    }
  }
  return place;
}

// Owns one libyaml event.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { yaml_event_delete(&raw_); }

  yaml_event_t* raw() { return &raw_; }
  yaml_event_type_t type() const { return raw_.type; }
  Place place() const { return place_at(raw_.start_mark); }

  std::string_view scalar() const {
    return {view(raw_.data.scalar.value), raw_.data.scalar.length};
  }
  bool is_plain() const { return raw_.data.scalar.style == YAML_PLAIN_SCALAR_STYLE; }

  // The name of the value's anchor, or of what an alias stands for.
  std::string_view anchor() const {
    switch (raw_.type) {
      case YAML_ALIAS_EVENT:
        return text_or_empty(raw_.data.alias.anchor);
      case YAML_SCALAR_EVENT:
        return text_or_empty(raw_.data.scalar.anchor);
      case YAML_SEQUENCE_START_EVENT:
        return text_or_empty(raw_.data.sequence_start.anchor);
      case YAML_MAPPING_START_EVENT:
        return text_or_empty(raw_.data.mapping_start.anchor);
      default:
        return {};
    }
  }
  std::string_view tag() const {
    switch (raw_.type) {
      case YAML_SCALAR_EVENT:
        return text_or_empty(raw_.data.scalar.tag);
      case YAML_SEQUENCE_START_EVENT:
        return text_or_empty(raw_.data.sequence_start.tag);
      case YAML_MAPPING_START_EVENT:
        return text_or_empty(raw_.data.mapping_start.tag);
      default:
        return {};
    }
  }

 private:
  static const char* view(const yaml_char_t* text) { return reinterpret_cast<const char*>(text); }
  static std::string_view text_or_empty(const yaml_char_t* text) {
    return text == nullptr ? std::string_view{} : std::string_view{view(text)};
  }

  yaml_event_t raw_{};
};

bool is_null_text(std::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

constexpr std::string_view kCoreTags = "tag:yaml.org,2002:";

bool is_core_tag(std::string_view tag) {
  if (tag.empty() || tag == "!") return true;
  if (tag.substr(0, kCoreTags.size()) != kCoreTags) return false;
  tag.remove_prefix(kCoreTags.size());
  for (std::string_view name : {"str", "int", "float", "bool", "null", "seq", "map"}) {
    if (tag == name) return true;
  }
  return false;
}

// What a subtree would cost if it were copied.
struct TreeSize {
  size_t nodes = 0;
  size_t text_bytes = 0;
  size_t depth = 0;
};

TreeSize size_of(const YamlNode& node) {
  TreeSize size{.nodes = 1 + node.keys.size(), .text_bytes = node.text.size(), .depth = 0};
  for (const YamlKey& key : node.keys) size.text_bytes += key.text.size();
  for (const YamlNode& item : node.items) {
    const TreeSize below = size_of(item);
    size.nodes += below.nodes;
    size.text_bytes += below.text_bytes;
    size.depth = std::max(size.depth, below.depth);
  }
  ++size.depth;
  return size;
}

// Takes over the keys of `from` that `into` does not have.
void merge_keys(YamlNode& into, const YamlNode& from) {
  std::set<std::string_view> known;
  for (const YamlKey& key : into.keys) known.insert(key.text);
  std::vector<size_t> missing;
  for (size_t i = 0; i < from.keys.size(); ++i) {
    if (known.insert(from.keys[i].text).second) missing.push_back(i);
  }
  for (const size_t i : missing) {
    into.keys.push_back(from.keys[i]);
    into.items.push_back(from.items[i]);
  }
}

class TreeReader {
 public:
  TreeReader(std::string_view text, const std::string& file_name, const YamlLimits& limits)
      : text_(text), file_(file_name), limits_(limits) {
    CHECK(limits.depth <= kMaxYamlDepth);
    CHECK(yaml_parser_initialize(&parser_) == 1);
    yaml_parser_set_encoding(&parser_, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()),
                                 text.size());
  }
  TreeReader(const TreeReader&) = delete;
  TreeReader& operator=(const TreeReader&) = delete;
  ~TreeReader() { yaml_parser_delete(&parser_); }

  ParsedYaml read() {
    while (read_document()) {
    }
    return std::move(parsed_);
  }

 private:
  bool fail(Place place, std::string message, std::string hint = "") {
    report(place, std::move(message), std::move(hint));
    return false;
  }

  void report(Place place, std::string message, std::string hint) {
    parsed_.diagnostics.push_back({.severity = Severity::kError,
                                   .file = file_,
                                   .line = place.line,
                                   .column = place.column,
                                   .message = std::move(message),
                                   .hint = std::move(hint)});
  }

  bool next(Event& event) {
    if (yaml_parser_parse(&parser_, event.raw()) == 1) return true;
    return fail_syntax();
  }

  // libyaml counts its offsets in bytes and its marks in characters.
  bool fail_syntax() {
    if (parser_.error == YAML_MEMORY_ERROR) return fail({}, "out of memory while reading YAML");
    const std::string problem = parser_.problem == nullptr ? "malformed text" : parser_.problem;
    if (parser_.error == YAML_READER_ERROR) {
      return fail(place_of_offset(text_, parser_.problem_offset), problem);
    }
    const Place place = place_at(parser_.problem_mark);
    const size_t index = byte_index(place);
    if (index < text_.size() && text_[index] == '\t') {
      return fail(place, "a tab cannot indent YAML", "use spaces");
    }
    const std::string context =
        parser_.context == nullptr ? "" : fmt::format(" {}", parser_.context);
    return fail(place, fmt::format("not valid YAML: {}{}", problem, context));
  }

  size_t byte_index(Place place) const {
    size_t at = 0;
    for (int line = 1; line < place.line && at < text_.size(); ++line) {
      const size_t end = text_.find('\n', at);
      at = end == text_.npos ? text_.size() : end + 1;
    }
    for (int column = 1; column < place.column && at < text_.size(); ++column) {
      do {
        ++at;
      } while (at < text_.size() && (static_cast<unsigned char>(text_[at]) & 0xc0) == 0x80);
    }
    return at;
  }

  bool read_document() {
    Event event;
    if (!next(event)) return false;
    if (event.type() == YAML_STREAM_END_EVENT) return false;
    if (event.type() != YAML_DOCUMENT_START_EVENT) return true;
    if (parsed_.documents.size() == limits_.documents) return fail_too_many_documents(event);
    anchors_.clear();
    YamlNode root;
    if (!read_value(root, 1)) return false;
    Event end;
    if (!next(end)) return false;
    parsed_.documents.push_back(std::move(root));
    return true;
  }

  bool fail_too_many_documents(const Event& event) {
    if (limits_.documents == 1) {
      return fail(event.place(), "expected one YAML document, found another one",
                  "remove the line \"---\" and what follows");
    }
    return fail(event.place(), fmt::format("more than {} YAML documents", limits_.documents));
  }

  bool read_value(YamlNode& node, size_t depth) {
    Event event;
    return next(event) && read_value(node, event, depth);
  }

  bool read_value(YamlNode& node, const Event& event, size_t depth) {
    if (!admit(event, depth)) return false;
    if (event.type() == YAML_ALIAS_EVENT) return copy_alias(node, event, depth);
    node.place = event.place();
    if (!read_new_value(node, event, depth)) return false;
    if (!event.anchor().empty()) anchors_.insert_or_assign(std::string(event.anchor()), node);
    return true;
  }

  bool read_new_value(YamlNode& node, const Event& event, size_t depth) {
    if (event.type() == YAML_SCALAR_EVENT) return read_scalar(node, event);
    if (event.type() == YAML_SEQUENCE_START_EVENT) return read_sequence(node, depth);
    CHECK(event.type() == YAML_MAPPING_START_EVENT);
    return read_mapping(node, depth);
  }

  // An anchor is known once its value has been read, so that no value can hold itself.
  bool copy_alias(YamlNode& node, const Event& event, size_t depth) {
    const auto anchor = anchors_.find(std::string(event.anchor()));
    if (anchor == anchors_.end()) {
      return fail(event.place(), fmt::format("the alias {} stands for nothing before it",
                                             in_quotes(event.anchor())));
    }
    const TreeSize size = size_of(anchor->second);
    nodes_ += size.nodes;
    alias_bytes_ += size.text_bytes;
    if (nodes_ > limits_.nodes || alias_bytes_ > kMaxAliasBytes) {
      return fail(event.place(), fmt::format("aliases make this more than {} values or {} of text",
                                             limits_.nodes, format_bytes(kMaxAliasBytes)));
    }
    if (depth + size.depth - 1 > limits_.depth) return fail_too_deep(event);
    node = anchor->second;
    return true;
  }

  bool fail_too_deep(const Event& event) {
    return fail(event.place(), fmt::format("nested deeper than {} levels", limits_.depth));
  }

  bool admit(const Event& event, size_t depth) {
    const bool is_shared = event.type() == YAML_ALIAS_EVENT || !event.anchor().empty();
    if (is_shared && !limits_.aliases) {
      return fail(event.place(), "anchors and aliases are not supported",
                  "write the value out in each place");
    }
    if (!is_core_tag(event.tag())) {
      return fail(event.place(),
                  fmt::format("the tag {} is not supported", in_quotes(event.tag())));
    }
    if (depth > limits_.depth) return fail_too_deep(event);
    if (++nodes_ > limits_.nodes) {
      return fail(event.place(), fmt::format("more than {} values", limits_.nodes));
    }
    return true;
  }

  bool read_scalar(YamlNode& node, const Event& event) {
    const std::string_view value = event.scalar();
    if (value.size() > limits_.scalar_bytes) {
      return fail(event.place(),
                  fmt::format("a single value of {}, the limit is {}", format_bytes(value.size()),
                              format_bytes(limits_.scalar_bytes)));
    }
    if (!limits_.aliases && has_control_character(value)) {
      return fail(event.place(), "a value contains a control character");
    }
    const bool is_text = event.tag() == "tag:yaml.org,2002:str" || event.tag() == "!";
    node.is_quoted = !event.is_plain() || is_text;
    node.text = value;
    const bool is_null = !node.is_quoted && is_null_text(value);
    node.kind = is_null ? YamlNode::Kind::kNull : YamlNode::Kind::kScalar;
    return true;
  }

  bool read_sequence(YamlNode& node, size_t depth) {
    node.kind = YamlNode::Kind::kSequence;
    while (true) {
      Event event;
      if (!next(event)) return false;
      if (event.type() == YAML_SEQUENCE_END_EVENT) return true;
      if (!read_value(node.items.emplace_back(), event, depth + 1)) return false;
    }
  }

  bool read_mapping(YamlNode& node, size_t depth) {
    node.kind = YamlNode::Kind::kMapping;
    std::vector<YamlNode> merged;
    while (true) {
      Event event;
      if (!next(event)) return false;
      if (event.type() == YAML_MAPPING_END_EVENT) break;
      if (!read_key(node, event, depth + 1)) return false;
      const bool is_merge = node.keys.back().text.empty();
      if (is_merge) node.keys.pop_back();
      YamlNode& value = is_merge ? merged.emplace_back() : node.items.emplace_back();
      if (!read_value(value, depth + 1)) return false;
      if (is_merge && !is_mergeable(value)) {
        return fail(event.place(), "a merge key takes a mapping or a list of mappings");
      }
    }
    report_duplicates(node);
    for (const YamlNode& from : merged) merge_all(node, from);
    return true;
  }

  static bool is_mergeable(const YamlNode& value) {
    if (value.kind != YamlNode::Kind::kSequence) return value.kind == YamlNode::Kind::kMapping;
    return std::all_of(value.items.begin(), value.items.end(),
                       [](const YamlNode& item) { return item.kind == YamlNode::Kind::kMapping; });
  }

  static void merge_all(YamlNode& node, const YamlNode& from) {
    if (from.kind == YamlNode::Kind::kMapping) return merge_keys(node, from);
    for (const YamlNode& item : from.items) merge_keys(node, item);
  }

  // A merge key is left as a key without text.
  bool read_key(YamlNode& node, const Event& event, size_t depth) {
    if (!admit(event, depth)) return false;
    if (event.type() == YAML_ALIAS_EVENT) {
      return fail(event.place(), "a key must be text, found an alias", "write the key out");
    }
    if (event.type() != YAML_SCALAR_EVENT) {
      const bool list = event.type() == YAML_SEQUENCE_START_EVENT;
      return fail(event.place(),
                  fmt::format("a key must be text, found {}", list ? "a list" : "a mapping"));
    }
    YamlNode key;
    if (!read_scalar(key, event)) return false;
    if (key.text.empty()) return fail(event.place(), "a key must be text, found nothing");
    if (key.text == "<<" && !key.is_quoted) {
      if (!limits_.aliases) {
        return fail(event.place(), "merge keys (\"<<\") are not supported",
                    "write the keys out in each place");
      }
      key.text.clear();
    }
    node.keys.push_back({std::move(key.text), event.place()});
    return true;
  }

  void report_duplicates(const YamlNode& mapping) {
    std::map<std::string_view, Place> first;
    for (const YamlKey& key : mapping.keys) {
      const auto [known, is_new] = first.emplace(key.text, key.place);
      if (is_new) continue;
      report(key.place,
             fmt::format("duplicate key {}, first given in line {}", in_quotes(key.text),
                         known->second.line),
             "");
    }
  }

  std::string_view text_;
  const std::string& file_;
  YamlLimits limits_;
  yaml_parser_t parser_{};
  size_t nodes_ = 0;
  size_t alias_bytes_ = 0;
  std::map<std::string, YamlNode> anchors_;  // of the document being read
  ParsedYaml parsed_;
};

// What libyaml should not be shown, as a message.
std::optional<Diagnostic> refuse(std::string_view text, const std::string& file_name,
                                 const YamlLimits& limits) {
  Diagnostic diagnostic{.severity = Severity::kError, .file = file_name};
  if (text.size() > limits.bytes) {
    diagnostic.message = fmt::format("the file is larger than {}", format_bytes(limits.bytes));
    return diagnostic;
  }
  const size_t nul = text.find('\0');
  const size_t invalid = find_invalid_utf8(text).value_or(text.npos);
  if (nul == text.npos && invalid == text.npos) return std::nullopt;
  const Place place = place_of_offset(text, std::min(nul, invalid));
  diagnostic.line = place.line;
  diagnostic.column = place.column;
  diagnostic.message = nul < invalid ? "the file contains a NUL byte; is it text?"
                                     : "the file is not valid UTF-8 here";
  return diagnostic;
}

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].text == key) return &items[i];
  }
  return nullptr;
}

std::string_view YamlNode::kind_name() const {
  switch (kind) {
    case Kind::kNull:
      return "nothing";
    case Kind::kScalar:
      return "text";
    case Kind::kSequence:
      return "a list";
    case Kind::kMapping:
      return "a mapping";
  }
  return "";
}

ParsedYaml parse_documents(std::string_view text, const std::string& file_name,
                           const YamlLimits& limits) {
  if (text.substr(0, kByteOrderMark.size()) == kByteOrderMark) {
    text.remove_prefix(kByteOrderMark.size());
  }
  if (auto refused = refuse(text, file_name, limits))
    return {.documents = {}, .diagnostics = {*refused}};
  return TreeReader(text, file_name, limits).read();
}

}  // namespace shanty
