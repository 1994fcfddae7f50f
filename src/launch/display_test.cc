#include "launch/display.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <string>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "os/files.h"
#include "run/rank_log.h"

namespace shanty {
namespace {

using std::chrono::milliseconds;

constexpr size_t kLines = 60'000;
constexpr milliseconds kLimit{4000};       // the reader needs longer for all, and less for a piece
constexpr milliseconds kBetweenReads{30};  // the reader takes a piece, and then pauses

// A run of one rank whose log is `text`, and a pipe in the place of stdout.
class DisplayTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::signal(SIGPIPE, SIG_IGN);  // as the program does
    char pattern[] = "/tmp/shanty-display-XXXXXX";
    directory_ = ::mkdtemp(pattern);
    int fds[2];
    ASSERT_EQ(::pipe2(fds, O_CLOEXEC), 0);
    reader_ = Fd(fds[0]);
    const Fd writer(fds[1]);
    ASSERT_GT(::fcntl(writer.get(), F_SETPIPE_SZ, 4096), 0);
    stdout_ = Fd(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
    ASSERT_EQ(::dup2(writer.get(), STDOUT_FILENO), STDOUT_FILENO);
  }
  void TearDown() override {
    give_stdout_back();
    EXPECT_TRUE(remove_tree(directory_).ok());
  }
  void give_stdout_back() {
    if (stdout_.valid()) ::dup2(stdout_.get(), STDOUT_FILENO);
    stdout_.reset();
  }

  RunDir run_that_printed(const std::string& text) {
    RunDir run = *RunDir::create(directory_ + "/run", {.run_id = "r", .job_name = "j"});
    EXPECT_TRUE(run.make_generation(1).ok());
    auto log = RankLogWriter::open(run.log(1, 0), run.log_index(1, 0), 1).value();
    EXPECT_TRUE(log.append(LogStream::kStdout, text, 1).ok());
    EXPECT_TRUE(log.finish(1).ok());
    return run;
  }

  std::string directory_;
  Fd reader_;
  Fd stdout_;
};

std::string many_lines() {
  std::string text;
  for (size_t i = 0; i < kLines; ++i) text += "line " + std::to_string(i) + "\n";
  return text;
}

TEST_F(DisplayTest, ShowsAllToAReaderThatIsSlowerThanTheLimitAsAWhole) {
  const std::string text = many_lines();
  const RunDir run = run_that_printed(text);
  const RunConfig config{.shown = {Streams{}}, .quiet = true};
  std::string seen;
  std::thread reader([&] {
    std::array<char, 4096> piece{};
    for (ssize_t n = 1; n > 0;) {
      n = ::read(reader_.get(), piece.data(), piece.size());
      seen.append(piece.data(), static_cast<size_t>(std::max<ssize_t>(n, 0)));
      std::this_thread::sleep_for(kBetweenReads);
    }
  });
  Display display(config, run);
  display.finish(kLimit);
  give_stdout_back();
  reader.join();
  EXPECT_EQ(seen, text);
}

TEST_F(DisplayTest, GivesUpOnAReaderThatTakesNothing) {
  const RunDir run = run_that_printed(many_lines());
  const RunConfig config{.shown = {Streams{}}, .quiet = true};
  const TimePoint begin = system_clock().now();
  {
    Display display(config, run);
    display.finish(kLimit);
  }
  EXPECT_LT(system_clock().now() - begin, std::chrono::seconds(30));
  reader_.reset();  // the thread that was given up ends with EPIPE
}

}  // namespace
}  // namespace shanty
