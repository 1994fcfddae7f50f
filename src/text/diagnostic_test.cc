#include "text/diagnostic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/utf8.h"

namespace shanty {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Diagnostic error_at(int line, int column) {
  return {.file = "job.yaml", .line = line, .column = column, .message = "wrong"};
}

TEST(Diagnostic, FirstLineIsPlaceAndMessage) {
  EXPECT_EQ(format_diagnostic(error_at(7, 9)), "job.yaml:7:9: wrong");
  EXPECT_EQ(format_diagnostic(error_at(0, 0)), "job.yaml: wrong");
  Diagnostic warning = error_at(1, 1);
  warning.severity = Severity::kWarning;
  EXPECT_EQ(format_diagnostic(warning), "job.yaml:1:1: warning: wrong");
}

TEST(Diagnostic, CaretStandsUnderTheColumn) {
  const Diagnostic all[] = {error_at(2, 4)};
  EXPECT_EQ(format_diagnostics(all, "a: 1\nbb: x\n", {}),
            "job.yaml:2:4: wrong\n    bb: x\n       ^\n");
}

TEST(Diagnostic, CaretAllowsForWideCharacters) {
  const Diagnostic all[] = {error_at(1, 3)};
  EXPECT_THAT(format_diagnostics(all, "\xe6\xbc\xa2: x", {}), HasSubstr("\n       ^\n"));
}

TEST(Diagnostic, LongLinesAreCutAroundTheCaret) {
  const Diagnostic all[] = {error_at(1, 5000)};
  const std::string text = format_diagnostics(all, std::string(10'000, 'x'), {});
  EXPECT_LT(text.size(), 400u);
  EXPECT_THAT(text, HasSubstr("^"));
}

TEST(Diagnostic, SourceCannotSpeakToTheTerminal) {
  const Diagnostic all[] = {error_at(1, 1)};
  EXPECT_THAT(format_diagnostics(all, "\x1b[2Jhello", {}), Not(HasSubstr("\x1b")));
}

TEST(Diagnostic, PlacesBeyondTheTextAreHarmless) {
  const Diagnostic all[] = {error_at(9, 9), error_at(1, 99)};
  EXPECT_THAT(format_diagnostics(all, "a", {}), HasSubstr("job.yaml:9:9: wrong"));
}

TEST(Diagnostic, ManyAreSortedLimitedAndStayErrors) {
  std::vector<Diagnostic> all;
  for (int i = 5; i > 0; --i) all.push_back(error_at(i, 1));
  for (Diagnostic& d : all) d.severity = Severity::kWarning;
  all.back().severity = Severity::kError;
  sort_and_limit(all, 2);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].line, 1);
  EXPECT_EQ(all[2].message, "3 more problems are not shown");
  EXPECT_TRUE(has_errors(all));
}

TEST(NearestKey, FindsCommonSlips) {
  constexpr std::string_view kKeys[] = {"gpus_per_node", "nodes", "batch", "steps"};
  EXPECT_EQ(nearest_key("gpu_per_node", kKeys), "gpus_per_node");
  EXPECT_EQ(nearest_key("gpus-per-node", kKeys), "gpus_per_node");
  EXPECT_EQ(nearest_key("GPUsPerNode", kKeys), "gpus_per_node");
  EXPECT_EQ(nearest_key("setps", kKeys), "steps");
  EXPECT_EQ(nearest_key("node", kKeys), "nodes");
}

TEST(NearestKey, StaysSilentWhenNothingIsNear) {
  constexpr std::string_view kKeys[] = {"gpus_per_node", "nodes"};
  EXPECT_EQ(nearest_key("colour", kKeys), "");
  EXPECT_EQ(nearest_key("", kKeys), "");
  EXPECT_EQ(nearest_key(std::string(100'000, 'n'), kKeys), "");
}

TEST(Utf8, QuotedCutsAndCleans) {
  EXPECT_EQ(in_quotes("abc"), "\"abc\"");
  EXPECT_EQ(in_quotes("a\x1b[1m\xff"), "\"a?[1m?\"");
  EXPECT_LE(in_quotes(std::string(1000, 'x')).size(), kMaxQuotedBytes + 5);
  EXPECT_FALSE(find_invalid_utf8(in_quotes(std::string(59, 'x') + "\xe6\xbc\xa2")).has_value());
}

TEST(Utf8, RefusesOverlongSurrogatesAndStrays) {
  EXPECT_FALSE(find_invalid_utf8("a\xc3\xa4\xf0\x9f\x98\x80").has_value());
  EXPECT_EQ(find_invalid_utf8("a\xc0\x80"), 1u);
  EXPECT_EQ(find_invalid_utf8("\xed\xa0\x80"), 0u);
  EXPECT_EQ(find_invalid_utf8("ab\x80"), 2u);
  EXPECT_EQ(find_invalid_utf8("\xf4\x90\x80\x80"), 0u);
  EXPECT_EQ(find_invalid_utf8("\xe6\xbc"), 0u);
}

}  // namespace
}  // namespace shanty
