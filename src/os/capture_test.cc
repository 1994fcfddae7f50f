#include "os/capture.h"

#include <gtest/gtest.h>

namespace shanty {
namespace {

SpawnOptions shell(const std::string& script) {
  return {.argv = {"/bin/sh", "-c", script}, .env = {"PATH=/usr/bin:/bin"}};
}

TEST(Capture, TakesOutputAndHowItEnded) {
  const auto said = run_captured(shell("echo hello; exit 3"));
  ASSERT_TRUE(said.ok());
  EXPECT_EQ(said->output, "hello\n");
  EXPECT_EQ(said->exit_code, 3);
  EXPECT_EQ(run_captured(shell("kill -9 $$"))->signal, 9);
}

TEST(Capture, KillsWhatTakesTooLongOrSaysTooMuch) {
  const auto slow = run_captured(shell("exec sleep 100"), {.time = std::chrono::milliseconds(50)});
  ASSERT_FALSE(slow.ok());
  EXPECT_NE(slow.error().message.find("did not end within"), std::string::npos);
  const auto loud = run_captured(shell("exec yes"), {.output_bytes = 1000});
  ASSERT_FALSE(loud.ok());
  EXPECT_NE(loud.error().message.find("more than"), std::string::npos);
}

TEST(Capture, SaysWhatCannotBeStarted) {
  EXPECT_FALSE(run_captured({.argv = {"/no/such/program"}}).ok());
}

}  // namespace
}  // namespace shanty
