#include "causes/catalogue.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty {
namespace {

using testing::HasSubstr;

constexpr std::string_view kPage =
    "# SHM009: a title: with a colon\nseverity: error\nclass: shm\n\n"
    "## What it is\na\n\n## How to recognise it\nb\n\n## Why\nc\nd\n\n## Fix now\ne\n\n"
    "## Prevent\nf\n\n## Look-alikes\ng\n\n## References\nh\n";

std::string without(std::string_view part) {
  std::string page(kPage);
  page.erase(page.find(part), part.size());
  return page;
}

TEST(Catalogue, APageGivesItsEntry) {
  const auto cause = parse_cause(kPage, Language::kEnglish);
  ASSERT_TRUE(cause.ok()) << cause.error().message;
  EXPECT_EQ(cause->code, "SHM009");
  EXPECT_EQ(cause->title, "a title: with a colon");
  EXPECT_EQ(cause->severity, Severity::kError);
  EXPECT_EQ(cause->failure_class, "shm");
  EXPECT_EQ(cause->why, "c\nd");
  EXPECT_EQ(cause->fix, "e");
  EXPECT_EQ(cause->page, kPage);
}

TEST(Catalogue, AnErrorNamesWhatAPageLacks) {
  const auto error = [](const std::string& page) {
    const auto cause = parse_cause(page, Language::kEnglish);
    return cause.ok() ? "none" : cause.error().message;
  };
  EXPECT_THAT(error(without("# ")), HasSubstr("begins with"));
  EXPECT_THAT(error(without("SHM009")), HasSubstr("begins with"));
  EXPECT_THAT(error(without("severity: error\n")), HasSubstr("severity"));
  EXPECT_THAT(error(without("## Why\nc\nd\n\n")), HasSubstr("\"## Why\" should stand"));
  EXPECT_THAT(error(without("c\nd\n")), HasSubstr("\"Why\" is empty"));
  EXPECT_THAT(error(std::string(kPage) + "\n## More\n"), HasSubstr("after the last section"));
  EXPECT_THAT(error(""), HasSubstr("begins with"));
}

TEST(Catalogue, CodesAreFoundInEitherCase) {
  ASSERT_NE(find_cause("SHM001"), nullptr);
  EXPECT_EQ(find_cause("shm001"), find_cause("SHM001"));
  EXPECT_EQ(find_cause("SHM999"), nullptr);
  EXPECT_EQ(find_cause(""), nullptr);
}

TEST(Catalogue, BothLanguagesHaveTheSameCauses) {
  const auto english = causes(Language::kEnglish);
  const auto chinese = causes(Language::kChinese);
  std::set<std::string> codes;
  for (const Cause& cause : english) {
    EXPECT_TRUE(codes.insert(cause.code).second) << cause.code << " has two pages";
    const Cause* other = find_cause(cause.code, Language::kChinese);
    ASSERT_NE(other, nullptr) << cause.code << " has no Chinese page";
    EXPECT_EQ(other->severity, cause.severity) << cause.code;
    EXPECT_EQ(other->failure_class, cause.failure_class) << cause.code;
  }
  EXPECT_EQ(chinese.size(), english.size());
}

TEST(Catalogue, TheLocaleChoosesTheLanguage) {
  EXPECT_EQ(language_of("zh_CN.UTF-8"), Language::kChinese);
  EXPECT_EQ(language_of("en_GB.UTF-8"), Language::kEnglish);
  EXPECT_EQ(language_of(""), Language::kEnglish);
}

}  // namespace
}  // namespace shanty
