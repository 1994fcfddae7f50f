#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/diagnostic.h"

namespace shanty {

enum class Language { kEnglish, kChinese };
// "zh" or "zh_CN.UTF-8" is Chinese, all else English.
Language language_of(std::string_view locale);

// An entry of the catalogue, read from its page. A page begins so:
//
//     # SHM001: /dev/shm is too small for the loader's workers
//     severity: warning
//     class: shm                 (the class of failure that it leads to; left out where none)
//
// and has the sections of kSections[language] in that order, each "## Title" with text below.
struct Cause {
  std::string code;
  std::string title;
  Severity severity = Severity::kWarning;
  std::string failure_class;
  std::string why;  // the section's text
  std::string fix;
  std::string page;  // all of it, Markdown
};

inline constexpr std::string_view kSections[2][7] = {
    {"What it is", "How to recognise it", "Why", "Fix now", "Prevent", "Look-alikes", "References"},
    {"是什么", "如何识别", "原因", "立即修复", "预防", "容易混淆", "参考"},
};

// `text` is a page; an error names what is missing.
Result<Cause> parse_cause(std::string_view text, Language language);

// All causes by code. Read once; the strings live as long as the program.
std::span<const Cause> causes(Language language);
// nullptr: there is no such code. Lower case is found too.
const Cause* find_cause(std::string_view code, Language language = Language::kEnglish);

}  // namespace shanty
