#include "ckpt/frames.h"

#include <array>
#include <string>
#include <thread>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/fd.h"

namespace shanty::ckpt {
namespace {

class FramesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> pair{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
    here_ = Fd(pair[0]);
    there_ = Fd(pair[1]);
  }
  void write_bytes(const std::string& bytes) {
    ASSERT_EQ(::write(here_.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }

  Fd here_;
  Fd there_;
};

TEST_F(FramesTest, AMessageComesWholeInFramesOfAnySize) {
  const std::vector<std::string> messages = {"", "a", "ab", "abc", std::string(40, 'x')};
  for (const size_t frame_bytes : {size_t{1}, size_t{2}, size_t{3}, kMaxFrameBytes}) {
    for (const std::string& message : messages) {
      ASSERT_TRUE(send_message(here_.get(), message, -1, frame_bytes).ok());
      const auto got = receive_message(there_.get());
      ASSERT_TRUE(got.ok() && *got) << got.error().message;
      EXPECT_EQ(**got, message);
    }
  }
}

TEST_F(FramesTest, AnEndBetweenMessagesIsNone) {
  here_.reset();
  const auto got = receive_message(there_.get());
  ASSERT_TRUE(got.ok());
  EXPECT_FALSE(*got);
}

TEST_F(FramesTest, AnEndWithinAMessageIsAnError) {
  for (const std::string& sent : {std::string("\1"), std::string("\2\0\0\0a", 5),
                                  std::string("\1\0\0\x80"
                                              "a",
                                              5)}) {
    SetUp();
    write_bytes(sent);
    here_.reset();
    EXPECT_FALSE(receive_message(there_.get()).ok());
  }
}

TEST_F(FramesTest, AFrameThatIsTooLongIsAnError) {
  write_bytes(std::string("\1\0\0\x10", 4));
  const auto got = receive_message(there_.get());
  ASSERT_FALSE(got.ok());
  EXPECT_THAT(got.error().message, testing::HasSubstr("too long"));
}

}  // namespace
}  // namespace shanty::ckpt
