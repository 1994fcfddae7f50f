#include "lint/secret_words.h"

#include <algorithm>
#include <string>

#include "lint/manifest/ref.h"

namespace shanty::lint {
namespace {

constexpr size_t kShortestSecret = 8;

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return out;
}

bool is_secret_name(const std::string& name) {
  constexpr std::string_view kEnds[] = {
      "TOKEN",         "PASSWORD",   "PASSWD",     "SECRET",      "API_KEY",
      "APIKEY",        "SECRET_KEY", "ACCESS_KEY", "PRIVATE_KEY", "SECRET_ACCESS_KEY",
      "ACCESS_KEY_ID", "CREDENTIALS"};
  return std::any_of(std::begin(kEnds), std::end(kEnds),
                     [&](std::string_view end) { return name.ends_with(end); });
}

// Words that stand where the secret is to be put.
bool is_stand_in(const std::string& value) {
  for (std::string_view part : {"YOUR", "CHANGE", "REPLACE", "EXAMPLE", "XXX", "...", "TODO",
                                "DUMMY", "PLACEHOLDER", "INSERT", "***", "TOKEN_HERE", "PASTE"}) {
    if (value.find(part) != value.npos) return true;
  }
  return false;
}

bool is_path_or_flag(std::string_view value) {
  return value.front() == '/' || value == "true" || value == "false" ||
         value.find("://") != value.npos || value.find_first_not_of("0123456789") == value.npos;
}

}  // namespace

bool names_secret(std::string_view name) {
  const std::string word = upper(name);
  for (std::string_view of_vocabulary :
       {"BOS_TOKEN", "EOS_TOKEN", "PAD_TOKEN", "UNK_TOKEN", "SEP_TOKEN", "CLS_TOKEN", "MASK_TOKEN",
        "STOP_TOKEN", "IMAGE_TOKEN"}) {
    if (word.ends_with(of_vocabulary)) return false;
  }
  return is_secret_name(word);
}

bool is_written_secret(std::string_view name, std::string_view value) {
  if (value.size() < kShortestSecret || is_placeholder(value) || is_path_or_flag(value))
    return false;
  if (value.find(' ') != value.npos) return false;
  return names_secret(name) && !is_stand_in(upper(value));
}

}  // namespace shanty::lint
