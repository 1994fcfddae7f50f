#include "follow/replacements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty::follow {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

kube::ApiError answer(int status, const std::string& text) {
  kube::ApiError error;
  error.message = text;
  error.status = status;
  return error;
}

struct ReplacementsTest : testing::Test {
  Replacements replacements{[this](const std::string& pod) -> kube::ApiStatus {
                              asked.push_back(pod);
                              if (failure) return *failure;
                              return {};
                            },
                            2};
  std::vector<std::string> asked;
  std::optional<kube::ApiError> failure;
  TimePoint now{};
};

TEST_F(ReplacementsTest, APodThatIsGoneIsMadeOnce) {
  ASSERT_TRUE(replacements.want("a", now).ok());
  EXPECT_TRUE(replacements.make_due(now).ok());
  EXPECT_TRUE(replacements.make_due(now + 1h).ok());
  EXPECT_THAT(asked, ElementsAre("a"));
}

TEST_F(ReplacementsTest, AServerThatDoesNotAnswerIsAskedAgain) {
  failure = answer(0, "no route");
  ASSERT_TRUE(replacements.want("a", now).ok());
  EXPECT_TRUE(replacements.make_due(now).ok());
  EXPECT_TRUE(replacements.make_due(now + 999ms).ok());
  EXPECT_EQ(asked.size(), 1u);
  EXPECT_TRUE(replacements.make_due(now + 1s).ok());
  EXPECT_EQ(asked.size(), 2u);
  failure.reset();
  EXPECT_TRUE(replacements.make_due(now + 2s).ok());
  EXPECT_EQ(asked.size(), 2u) << "the second wait is longer";
  EXPECT_TRUE(replacements.make_due(now + 3s).ok());
  EXPECT_TRUE(replacements.make_due(now + 1h).ok());
  EXPECT_EQ(asked.size(), 3u);
}

TEST_F(ReplacementsTest, TheLimitEndsIt) {
  failure = answer(503, "overloaded");
  ASSERT_TRUE(replacements.want("a", now).ok());
  for (int s = 0; s < 480; ++s) ASSERT_TRUE(replacements.make_due(now + s * 1s).ok()) << s;
  EXPECT_LT(asked.size(), 60u);
  const Status end = replacements.make_due(now + 500s);
  ASSERT_FALSE(end.ok());
  EXPECT_THAT(end.error().message, HasSubstr("making pod a anew: overloaded"));
}

TEST_F(ReplacementsTest, ARefusalEndsItAtOnce) {
  failure = answer(403, "exceeded quota");
  ASSERT_TRUE(replacements.want("a", now).ok());
  const Status end = replacements.make_due(now);
  ASSERT_FALSE(end.ok());
  EXPECT_THAT(end.error().message, HasSubstr("exceeded quota"));
}

TEST_F(ReplacementsTest, NoMoreThanAllowed) {
  EXPECT_TRUE(replacements.want("a", now).ok());
  EXPECT_TRUE(replacements.want("b", now).ok());
  const Status third = replacements.want("a", now);
  ASSERT_FALSE(third.ok());
  EXPECT_THAT(third.error().message, HasSubstr("pods were replaced 2 times"));
}

}  // namespace
}  // namespace shanty::follow
