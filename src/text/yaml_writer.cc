#include "text/yaml_writer.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"

namespace shanty {
namespace {

constexpr size_t kIndent = 2;
constexpr size_t kColumns = 100;

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view word) {
    return std::ranges::equal(text, word, [](char a, char b) { return (a | 0x20) == (b | 0x20); });
  });
}

// "64Gi", "512M": no reader takes this for a number.
bool is_quantity(std::string_view text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view unit = text.substr(digits);
  return digits > 0 && (unit == "Gi" || unit == "Mi" || unit == "Ki" || unit == "G" || unit == "M");
}

// True for text that any reader of YAML 1.1 or 1.2 takes as that text when it is not quoted.
bool is_plain(std::string_view text) {
  if (text.empty() ||
      is_one_of(text, {"true", "false", "yes", "no", "on", "off", "null", "y", "n", "~"})) {
    return false;
  }
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto is_inner = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || std::string_view("-_./").find(c) < 4;
  };
  if (is_quantity(text)) return true;
  const bool is_option = text.starts_with("--") && text.size() > 2 && is_letter(text[2]);
  if (!is_letter(text.front()) && text.front() != '/' && !is_option) return false;
  // A colon or blank inside is harmless unless they stand together, or a blank before a #.
  for (size_t i = 0; i < text.size(); ++i) {
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    const bool glue =
        (text[i] == ':' || text[i] == '=' || text[i] == '@' || text[i] == ',' || text[i] == ' ') &&
        (is_inner(next));
    if (!is_inner(text[i]) && !glue) return false;
  }
  return true;
}

// A character that readers of YAML refuse, or take for the end of a line: control characters, the
// line and paragraph separators, a byte order mark. No bytes: the text begins with none.
struct Special {
  size_t bytes = 0;
  unsigned code = 0;
};

Special special_at(std::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned first = byte(0);
  const bool is_control = (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f;
  if (is_control && !text.empty()) return {1, first};
  if (first == 0xc2 && byte(1) >= 0x80 && byte(1) < 0xa0) return {2, byte(1)};
  const bool separates = byte(2) == 0xa8 || byte(2) == 0xa9;
  if (first == 0xe2 && byte(1) == 0x80 && separates) return {3, 0x2000 | (byte(2) & 0x3f)};
  if (first == 0xef && byte(1) == 0xbb && byte(2) == 0xbf) return {3, 0xfeff};
  if (first == 0xef && byte(1) == 0xbf && byte(2) >= 0xbe) return {3, 0xff40 + byte(2)};
  return {};
}

bool has_special(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (special_at(text.substr(i)).bytes > 0) return true;
  }
  return false;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const char c = text.front();
    const Special special = special_at(text);
    text.remove_prefix(std::max<size_t>(special.bytes, 1));
    if (special.bytes > 0) {
      out += special.code < 0x100 ? fmt::format("\\x{:02x}", special.code)
                                  : fmt::format("\\u{:04x}", special.code);
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// A literal block keeps text as it is; not text with control characters, nor with a first line
// that begins with a blank, which would set the depth of the block.
bool fits_block(std::string_view text) {
  if (text.find('\n') == text.npos || text.front() == ' ' || text.front() == '\n') return false;
  return !has_special(text);
}

std::string block(std::string_view text, size_t depth) {
  const size_t last = text.find_last_not_of('\n');
  const size_t newlines = last == text.npos ? 0 : text.size() - last - 1;
  std::string out = newlines == 0 ? "|-" : newlines == 1 ? "|" : "|+";
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    out += '\n';
    if (!line.empty()) out += std::string(depth, ' ') + std::string(line);
    text = end == text.npos ? std::string_view{} : text.substr(end + 1);
  }
  return out;
}

std::vector<std::string> broken(std::string_view text, size_t width) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    if (end > width) {
      const size_t blank = text.rfind(' ', width);
      end = blank == text.npos || blank == 0 ? std::min(text.find(' '), end) : blank;
    }
    lines.emplace_back(text.substr(0, end));
    text = text.substr(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

Yaml Yaml::word(std::string text) {
  Yaml out(Kind::kWord);
  out.scalar_ = std::move(text);
  return out;
}

Yaml Yaml::texts(const std::vector<std::string>& items) {
  Yaml out = sequence();
  for (const std::string& item : items) out.push(item);
  return out;
}

Yaml& Yaml::operator[](std::string_view key) {
  if (kind_ == Kind::kNull) kind_ = Kind::kMapping;
  CHECK(kind_ == Kind::kMapping);
  const auto found = std::ranges::find(keys_, key);
  if (found != keys_.end()) return items_[static_cast<size_t>(found - keys_.begin())];
  keys_.emplace_back(key);
  return items_.emplace_back();
}

Yaml& Yaml::set(std::string_view key, Yaml value, std::string comment) {
  Yaml& place = (*this)[key];
  place = std::move(value);
  if (!comment.empty()) place.comment_ = std::move(comment);
  return *this;
}

Yaml& Yaml::push(Yaml item, std::string comment) {
  if (kind_ == Kind::kNull) kind_ = Kind::kSequence;
  CHECK(kind_ == Kind::kSequence);
  items_.push_back(std::move(item));
  if (!comment.empty()) items_.back().comment_ = std::move(comment);
  return items_.back();
}

Yaml& Yaml::comment(std::string text) {
  comment_ = std::move(text);
  return *this;
}

const Yaml* Yaml::find(std::string_view key) const {
  const auto found = std::ranges::find(keys_, key);
  return found == keys_.end() ? nullptr : &items_[static_cast<size_t>(found - keys_.begin())];
}

void Yaml::write_comment(std::string& out, size_t depth) const {
  const size_t width = kColumns > depth + 22 ? kColumns - depth - 2 : 20;
  for (const std::string& line : broken(comment_, width)) {
    // A comment that ends before its line would go on as YAML.
    out += std::string(depth, ' ') + "# " + (has_special(line) ? quoted(line) : line) + "\n";
  }
}

std::string Yaml::scalar_text(size_t depth) const {
  if (kind_ == Kind::kNull) return "null";
  if (kind_ == Kind::kWord || is_plain(scalar_)) return scalar_;
  return fits_block(scalar_) ? block(scalar_, depth) : quoted(scalar_);
}

void Yaml::write_after_key(std::string& out, size_t depth) const {
  if (kind_ == Kind::kMapping) {
    out += items_.empty() ? " {}\n" : "\n";
    write_mapping(out, depth + kIndent, false);
  } else if (kind_ == Kind::kSequence) {
    out += items_.empty() ? " []\n" : "\n";
    write_sequence(out, depth);
  } else {
    out += " " + scalar_text(depth + kIndent) + "\n";
  }
}

void Yaml::write_mapping(std::string& out, size_t depth, bool on_dash) const {
  for (size_t i = 0; i < items_.size(); ++i) {
    const bool joined = on_dash && i == 0;
    if (!joined) {
      items_[i].write_comment(out, depth);
      out += std::string(depth, ' ');
    }
    out += (is_plain(keys_[i]) ? keys_[i] : quoted(keys_[i])) + ":";
    items_[i].write_after_key(out, depth);
  }
}

void Yaml::write_sequence(std::string& out, size_t depth) const {
  for (const Yaml& item : items_) {
    item.write_comment(out, depth);
    // The first line of a mapping shares the dash's line, so its comment goes above the dash.
    if (item.kind_ == Kind::kMapping && !item.items_.empty()) {
      item.items_.front().write_comment(out, depth);
      out += std::string(depth, ' ') + "- ";
      item.write_mapping(out, depth + kIndent, true);
    } else if (item.kind_ == Kind::kSequence && !item.items_.empty()) {
      out += std::string(depth, ' ') + "-\n";
      item.write_sequence(out, depth + kIndent);
    } else {
      out += std::string(depth, ' ') + "-";
      item.write_after_key(out, depth);
    }
  }
}

std::string Yaml::write() const {
  std::string out;
  write_comment(out, 0);
  if (kind_ == Kind::kMapping && !items_.empty()) {
    write_mapping(out, 0, false);
  } else if (kind_ == Kind::kSequence && !items_.empty()) {
    write_sequence(out, 0);
  } else {
    std::string line;
    write_after_key(line, 0);
    out += line.substr(1);
  }
  return out;
}

}  // namespace shanty
