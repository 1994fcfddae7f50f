#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace shanty {

// A YAML value to be written, with comments. Keys and items keep their order.
class Yaml {
 public:
  Yaml() = default;                                                          // null
  Yaml(std::string text) : kind_(Kind::kText), scalar_(std::move(text)) {}   // NOLINT: implicit
  Yaml(std::string_view text) : Yaml(std::string(text)) {}                   // NOLINT: implicit
  Yaml(const char* text) : Yaml(std::string(text)) {}                        // NOLINT: implicit
  Yaml(bool flag) : kind_(Kind::kWord), scalar_(flag ? "true" : "false") {}  // NOLINT: implicit
  Yaml(int number) : kind_(Kind::kWord), scalar_(std::to_string(number)) {}  // NOLINT: implicit
  Yaml(uint64_t number) : kind_(Kind::kWord), scalar_(std::to_string(number)) {}  // NOLINT
  // Written as it is: a number with a fraction, for example.
  static Yaml word(std::string text);
  static Yaml mapping() { return Yaml(Kind::kMapping); }
  static Yaml sequence() { return Yaml(Kind::kSequence); }
  static Yaml texts(const std::vector<std::string>& items);

  // The value under `key`; a null becomes a mapping, a missing key a null at the end.
  Yaml& operator[](std::string_view key);
  // Puts a value under `key`, in the place of an old one. `comment` is written above the line.
  Yaml& set(std::string_view key, Yaml value, std::string comment = "");
  // Adds an item; a null becomes a sequence. Returns the item.
  Yaml& push(Yaml item, std::string comment = "");
  // Written above the line where this value begins; lines are broken at 100 columns.
  Yaml& comment(std::string text);

  bool is_null() const { return kind_ == Kind::kNull; }
  bool empty() const { return items_.empty() && scalar_.empty(); }
  const Yaml* find(std::string_view key) const;
  // Of a sequence or a mapping. References stay good while items are added.
  const std::deque<Yaml>& items() const { return items_; }

  // Block style, two blanks deep per level, a newline at the end. Text that could be read as
  // something else is quoted; text of several lines is a literal block where YAML allows it.
  std::string write() const;

 private:
  enum class Kind { kNull, kText, kWord, kMapping, kSequence };
  explicit Yaml(Kind kind) : kind_(kind) {}

  void write_comment(std::string& out, size_t depth) const;
  void write_mapping(std::string& out, size_t depth, bool on_dash) const;
  void write_sequence(std::string& out, size_t depth) const;
  void write_after_key(std::string& out, size_t depth) const;
  std::string scalar_text(size_t depth) const;

  Kind kind_ = Kind::kNull;
  std::string scalar_;
  std::string comment_;
  std::deque<std::string> keys_;  // of a mapping, one for each item
  std::deque<Yaml> items_;
};

}  // namespace shanty
