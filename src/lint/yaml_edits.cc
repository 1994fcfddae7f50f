#include "lint/yaml_edits.h"

#include <string>

namespace shanty::lint {
namespace {

bool is_json(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != text.npos && (text[first] == '{' || text[first] == '[');
}

// `text` and a last line end, each line but the first after `indent` blanks.
std::string indented(std::string_view text, size_t indent) {
  std::string out;
  for (const char c : text) {
    out += c;
    if (c == '\n') out.append(indent, ' ');
  }
  out += '\n';
  return out.append(indent, ' ');
}

// The first of the comment lines right above `line` that stand as far in as it does: what they say
// is said of what comes after them.
int first_comment_above(const TextPlaces& places, int line, size_t indent) {
  while (line > 1) {
    const std::string_view above = places.line(line - 1);
    const size_t start = above.find_first_not_of(' ');
    if (start != indent || above[start] != '#') break;
    --line;
  }
  return line;
}

}  // namespace

std::optional<Edit> replace_scalar(const TextPlaces& places, const YamlNode& scalar,
                                   std::string_view text) {
  const auto start = places.offset(scalar.place);
  if (!start || scalar.text.empty()) return {};
  const std::string_view source = places.text();
  if (!scalar.is_quoted) {
    if (source.substr(*start, scalar.text.size()) != scalar.text) return {};
    return Edit{*start, *start + scalar.text.size(), std::string(text)};
  }
  const char quote = source[*start];
  const size_t end = *start + 1 + scalar.text.size();
  if ((quote != '"' && quote != '\'') || end >= source.size() || source[end] != quote ||
      source.substr(*start + 1, scalar.text.size()) != scalar.text)
    return {};
  return Edit{*start, end + 1, std::string(text)};
}

std::optional<Edit> replace_key(const TextPlaces& places, const YamlKey& key,
                                std::string_view text) {
  const auto start = places.offset(key.place);
  if (!start || places.text().substr(*start, key.text.size()) != key.text) return {};
  return Edit{*start, *start + key.text.size(), std::string(text)};
}

std::optional<Edit> insert_before(const TextPlaces& places, const YamlKey& key,
                                  std::string_view text) {
  const auto at = places.offset(key.place);
  if (!at || is_json(places.text()) || places.text().substr(*at, key.text.size()) != key.text)
    return {};
  const std::string_view line = places.line(key.place.line);
  const size_t before_bytes = std::min(line.find(key.text), line.size());
  const std::string_view before = line.substr(0, before_bytes);
  if (before.find_first_not_of(" -") == before.npos) {
    const auto indent = static_cast<size_t>(key.place.column - 1);
    const bool is_alone = before.find('-') == before.npos;
    const int line_number =
        is_alone ? first_comment_above(places, key.place.line, indent) : key.place.line;
    const size_t to = places.offset({line_number, key.place.column}).value_or(*at);
    return Edit{to, to, indented(text, indent)};
  }
  const size_t opened = before.find_last_not_of(' ');
  const bool is_flow = opened != before.npos && (before[opened] == '{' || before[opened] == ',');
  if (!is_flow || text.find('\n') != text.npos) return {};
  return Edit{*at, *at, std::string(text) + ", "};
}

std::optional<Edit> insert_item(const TextPlaces& places, const YamlNode& list,
                                std::string_view text) {
  if (list.items.empty() || list.items[0].kind != YamlNode::Kind::kMapping) return {};
  const Place first = list.items[0].place;
  const std::string_view line = places.line(first.line);
  const size_t dash = line.find_first_not_of(' ');
  const auto column = static_cast<size_t>(first.column - 1);
  const bool is_block =
      dash != line.npos && line[dash] == '-' && column <= line.size() && column > dash &&
      line.substr(dash + 1, column - dash - 1).find_first_not_of(' ') == line.npos;
  if (dash == line.npos) return {};
  const auto at =
      places.offset({first_comment_above(places, first.line, dash), static_cast<int>(dash) + 1});
  if (!is_block || !at || is_json(places.text())) return {};
  std::string item = "- " + std::string(text);
  for (size_t i = item.find('\n'); i != item.npos; i = item.find('\n', i + 1))
    item.insert(i + 1, "  ");
  return Edit{*at, *at, indented(item, dash)};
}

}  // namespace shanty::lint
