#include "logs/pattern.h"

#include <array>

#include <re2/re2.h>

#include "base/check.h"

namespace shanty {
namespace {

constexpr int kMaxGroups = 24;

RE2::Options options() {
  RE2::Options options(RE2::Quiet);
  options.set_encoding(RE2::Options::EncodingLatin1);  // bytes: logs are not always UTF-8
  return options;
}

}  // namespace

Pattern::Pattern(std::string_view expression)
    : re_(std::make_unique<RE2>(re2::StringPiece(expression.data(), expression.size()),
                                options())) {
  CHECK(re_->ok());
  CHECK(re_->NumberOfCapturingGroups() < kMaxGroups);
  for (const auto& [group, name] : re_->CapturingGroupNames()) names_.emplace_back(group, name);
}

Pattern::Pattern(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

bool Pattern::match(std::string_view text, bool anchored, Captures& out, size_t* end) const {
  std::array<re2::StringPiece, kMaxGroups> groups;
  const re2::StringPiece whole(text.data(), text.size());
  if (!re_->Match(whole, 0, text.size(), anchored ? RE2::ANCHOR_START : RE2::UNANCHORED,
                  groups.data(), re_->NumberOfCapturingGroups() + 1)) {
    return false;
  }
  for (const auto& [group, name] : names_) {
    const re2::StringPiece& part = groups[static_cast<size_t>(group)];
    if (part.data() != nullptr) out.emplace_back(name, std::string_view(part.data(), part.size()));
  }
  if (end) *end = static_cast<size_t>(groups[0].data() + groups[0].size() - text.data());
  return true;
}

bool Pattern::find(std::string_view text, Captures& out) const {
  return match(text, false, out, nullptr);
}

bool Pattern::match_start(std::string_view text, Captures& out, size_t& end) const {
  return match(text, true, out, &end);
}

std::string_view capture(const Captures& captures, std::string_view name) {
  for (const auto& [key, value] : captures) {
    if (key == name) return value;
  }
  return {};
}

}  // namespace shanty
