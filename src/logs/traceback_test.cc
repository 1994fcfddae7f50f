#include "logs/traceback.h"

#include <gtest/gtest.h>

namespace shanty {
namespace {

// Below the last frame of the text.
std::optional<Raised> raised_in(std::string_view text) {
  const size_t begin = text.rfind('\n', text.rfind(kFrameNeedle)) + 1;
  return raised_below(text, begin, text.find('\n', begin));
}

TEST(Traceback, EndsWithAnExceptionOfAnyName) {
  for (const char* name : {"KeyError", "cv2.error", "queue.Empty", "StopIteration", "job.Refused",
                           "socket.timeout", "Exception"}) {
    const std::string text =
        "  File \"/a/job.py\", line 7, in step\n    go()\n    ^^^^\n" + std::string(name) + ": 3\n";
    const auto raised = raised_in(text);
    ASSERT_TRUE(raised) << name;
    EXPECT_EQ(raised->what, "3");
    EXPECT_EQ(raised->at, "job.py:7 in step");
    EXPECT_EQ(raised->lines_below, 3u);
  }
}

TEST(Traceback, StandsBehindWhateverIsInFrontOfItsLines) {
  const auto raised = raised_in(
      "10:00:01 box7 <job> |   File \"C:\\a\\job.py\", line 7, in <module>\n"
      "10:00:01 box7 <job> |     go()\n"
      "10:00:02 other words\n"
      "10:00:12 box7 <job> | ValueError\n");
  ASSERT_TRUE(raised);
  EXPECT_EQ(raised->message, "ValueError");
  EXPECT_EQ(raised->at, "job.py:7 in <module>");
}

TEST(Traceback, IsNotOverAtAnotherFrameOrAtOtherWords) {
  EXPECT_FALSE(
      raised_below("  File \"a\", line 1, in f\n  File \"b\", line 2, in g\nKeyError: 1\n", 0, 24));
  for (const char* words : {"INFO: step 3", "Epoch: 3", "GPU: 0", "job.train: step 3", "step",
                            "Training done", "3.5: ValueError", "OMP: a hint"}) {
    EXPECT_FALSE(raised_in("  File \"a.py\", line 1, in f\n    go()\n" + std::string(words) + "\n"))
        << words;
  }
}

TEST(Traceback, EndsWithItsText) {
  EXPECT_FALSE(raised_in("  File \"a.py\", line 1, in f\n"));
  EXPECT_FALSE(raised_in("  File \"a.py\n"));
  EXPECT_TRUE(raised_in("  File \"a.py\n    x(\nSyntaxError: unclosed"));
}

}  // namespace
}  // namespace shanty
