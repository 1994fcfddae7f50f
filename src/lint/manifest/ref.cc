#include "lint/manifest/ref.h"

#include <charconv>

namespace shanty::lint {

const YamlKey* Ref::key(std::string_view name) const {
  for (const YamlKey& key : keys()) {
    if (key.text == name) return &key;
  }
  return nullptr;
}

std::optional<int64_t> Ref::integer() const {
  const std::string_view digits = text();
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) return {};
  return value;
}

Ref find_item(Ref list, std::string_view key, std::string_view text) {
  if (!list.is_sequence()) return {};
  for (const YamlNode& item : list.items()) {
    if (Ref(item)[key].text() == text) return item;
  }
  return {};
}

bool is_placeholder(std::string_view text) {
  if (text.empty()) return false;
  if (text.front() == '<' || text.front() == '$') return true;
  if (text.front() == '{' && text.find('}') != text.npos) return true;
  for (std::string_view mark : {"{{", "${", "$(", "%(", "<your", "{%"}) {
    if (text.find(mark) != text.npos) return true;
  }
  return false;
}

}  // namespace shanty::lint
