#include "run/line_splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kSecond = 1'000'000'000;

class LineSplitterTest : public ::testing::Test {
 protected:
  std::vector<std::string> take(LineSplitter& splitter, std::string_view bytes, int64_t at = 1) {
    std::vector<SplitLine> lines;
    splitter.take(bytes, at, lines);
    return texts(lines);
  }
  std::vector<std::string> finish(LineSplitter& splitter) {
    std::vector<SplitLine> lines;
    splitter.finish(lines);
    return texts(lines);
  }
  static std::vector<std::string> texts(const std::vector<SplitLine>& lines) {
    std::vector<std::string> out;
    for (const SplitLine& line : lines) out.push_back(line.text + (line.has_newline ? "$" : ""));
    return out;
  }
};

TEST_F(LineSplitterTest, PutsPiecesTogether) {
  LineSplitter splitter(false);
  EXPECT_THAT(take(splitter, "a\nb"), ElementsAre("a$"));
  EXPECT_THAT(take(splitter, "c\n\nd"), ElementsAre("bc$", "$"));
  EXPECT_THAT(finish(splitter), ElementsAre("d"));
  EXPECT_THAT(finish(splitter), IsEmpty());
}

TEST_F(LineSplitterTest, AGiantLineComesInPiecesThatAddUp) {
  LineSplitter splitter(false);
  std::vector<SplitLine> lines;
  std::string sent;
  for (int i = 0; i < 50; ++i) {
    const std::string piece(7001, static_cast<char>('a' + i % 26));
    sent += piece;
    splitter.take(piece, i, lines);
  }
  splitter.take("\nnext\n", 60, lines);
  std::string received;
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    EXPECT_LE(lines[i].text.size(), LineSplitter::kMaxLineBytes);
    EXPECT_EQ(lines[i].continues, i > 0);
    EXPECT_EQ(lines[i].has_newline, i + 2 == lines.size());
    received += lines[i].text;
  }
  EXPECT_EQ(received, sent);
  EXPECT_EQ(lines.back().text, "next");
  EXPECT_FALSE(lines.back().continues);
}

TEST_F(LineSplitterTest, NeverCutsWithinACharacter) {
  LineSplitter splitter(false);
  std::vector<SplitLine> lines;
  std::string text = "x";
  while (text.size() <= LineSplitter::kMaxLineBytes) text += "\xe2\x82\xac";
  splitter.take(text, 1, lines);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].text.size() % 3, 1U);
}

TEST_F(LineSplitterTest, CarriageReturnsPassWhenNobodyLooks) {
  LineSplitter splitter(false);
  EXPECT_THAT(take(splitter, "10%\r20%\r\n"), ElementsAre("10%\r20%\r$"));
}

TEST_F(LineSplitterTest, OfARedrawnLineTheLastStateStays) {
  LineSplitter splitter(true);
  EXPECT_THAT(take(splitter, "10%\r20%"), IsEmpty());
  EXPECT_THAT(take(splitter, "\r100%\r\nwindows\r\n"), ElementsAre("100%$", "windows$"));
}

TEST_F(LineSplitterTest, AnEndlessRedrawIsShownNowAndThenInBoundedMemory) {
  LineSplitter splitter(true);
  std::vector<std::string> shown;
  for (int second = 1; second <= 25; ++second) {
    const auto lines = take(splitter, "\rstate " + std::to_string(second) + std::string(60, ' '),
                            second * kSecond);
    for (const std::string& line : lines) shown.push_back(line.substr(0, 8));
  }
  EXPECT_THAT(shown, ElementsAre("state 11", "state 21"));
  EXPECT_EQ(finish(splitter).front().substr(0, 8), "state 25");
}

}  // namespace
}  // namespace shanty
