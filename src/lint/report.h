#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "causes/finding.h"
#include "lint/manifest/command_line.h"
#include "lint/manifest/ref.h"
#include "lint/source.h"
#include "lint/text_places.h"

namespace shanty::lint {

// Where the rules of one source put their findings. The severity is the catalogue's until a rule
// says otherwise. A returned reference is good until the next add.
class Report {
 public:
  explicit Report(const Source& source) : source_(&source) {}

  Finding& add(std::string_view code, Place place, std::string message);
  Finding& add(std::string_view code, Ref at, std::string message);
  // At the key of a mapping, or at the mapping where it has no such key.
  Finding& add_at_key(std::string_view code, Ref mapping, std::string_view key,
                      std::string message);
  Finding& add_at_word(std::string_view code, const Word& word, std::string message);

  const Source& source() const { return *source_; }
  const TextPlaces& places();
  std::vector<Finding> take() { return std::move(findings_); }

 private:
  const Source* source_;
  std::optional<TextPlaces> places_;  // made when something is found
  std::vector<Finding> findings_;
};

// Puts an edit to a finding if there is one.
void put_edit(Finding& finding, std::optional<Edit> edit);

}  // namespace shanty::lint
