#include "lint/report.h"

#include "causes/catalogue.h"

namespace shanty::lint {

const TextPlaces& Report::places() {
  if (!places_) places_.emplace(source_->text);
  return *places_;
}

Finding& Report::add(std::string_view code, Place place, std::string message) {
  const Cause* cause = find_cause(code);
  Finding& finding = findings_.emplace_back();
  finding.code = code;
  finding.severity = cause == nullptr ? Severity::kWarning : cause->severity;
  finding.file = source_->name;
  finding.subject.files = {source_->name};
  finding.line = place.line;
  finding.column = place.column;
  finding.message = std::move(message);
  return finding;
}

Finding& Report::add(std::string_view code, Ref at, std::string message) {
  return add(code, at ? at.node()->place : Place{}, std::move(message));
}

Finding& Report::add_at_key(std::string_view code, Ref mapping, std::string_view key,
                            std::string message) {
  const YamlKey* found = mapping.key(key);
  if (found != nullptr) return add(code, found->place, std::move(message));
  return add(code, mapping, std::move(message));
}

Finding& Report::add_at_word(std::string_view code, const Word& word, std::string message) {
  const Place place =
      word.node == nullptr ? Place{} : place_within(places(), *word.node, word.offset);
  return add(code, place, std::move(message));
}

void put_edit(Finding& finding, std::optional<Edit> edit) {
  if (edit) finding.edits.push_back(std::move(*edit));
}

}  // namespace shanty::lint
