#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace re2 {
class RE2;
}

namespace shanty {

// What an expression's named groups caught. Views into the text that was matched, names into the
// pattern.
using Captures = std::vector<std::pair<std::string_view, std::string_view>>;

// An RE2 expression with its named groups. Immutable once made, any thread.
class Pattern {
 public:
  // `expression` is ours: CHECKs that it compiles.
  explicit Pattern(std::string_view expression);
  Pattern(Pattern&&) noexcept;
  ~Pattern();

  // Appends the groups that took part. `end` receives where the match ended.
  bool find(std::string_view text, Captures& out) const;
  bool match_start(std::string_view text, Captures& out, size_t& end) const;

 private:
  bool match(std::string_view text, bool anchored, Captures& out, size_t* end) const;

  std::unique_ptr<re2::RE2> re_;
  std::vector<std::pair<int, std::string>> names_;
};

// The value under `name`, or empty.
std::string_view capture(const Captures& captures, std::string_view name);

}  // namespace shanty
