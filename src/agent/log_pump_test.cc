#include "agent/log_pump.h"

#include <atomic>
#include <cstdlib>
#include <future>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "os/files.h"

namespace shanty {
namespace {

class LogPumpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/shanty-pump-XXXXXX";
    directory_ = ::mkdtemp(pattern);
    out_ = add_pipe(stdout_read_);
    err_ = add_pipe(stderr_read_);
  }
  void TearDown() override { EXPECT_TRUE(remove_tree(directory_).ok()); }

  static Fd add_pipe(Fd& read_end) {
    int fds[2];
    EXPECT_EQ(::pipe2(fds, O_CLOEXEC), 0);
    read_end = Fd(fds[0]);
    return Fd(fds[1]);
  }

  void start(LogPump& pump) {
    auto writer = RankLogWriter::open(log(), directory_ + "/idx", 0);
    ASSERT_TRUE(writer.ok()) << writer.error().message;
    pump.add(std::move(stdout_read_), std::move(stderr_read_), std::move(*writer));
  }

  static void finish(LogPump& pump) {
    std::promise<void> done;
    pump.drain([&] { done.set_value(); });
    ASSERT_EQ(done.get_future().wait_for(std::chrono::seconds(120)), std::future_status::ready);
  }

  std::string log() const { return directory_ + "/log"; }
  std::string content() const { return *read_file(log(), size_t{1} << 30); }

  std::string directory_;
  Fd stdout_read_, stderr_read_, out_, err_;
};

void ignore_problem(const std::string& /*problem*/) {}

TEST_F(LogPumpTest, KeepsEveryByteOfBinaryOutputAndOfALastLineWithoutNewline) {
  LogPump pump(ignore_problem);
  start(pump);
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  bytes += "\nno newline at the end";
  ASSERT_TRUE(write_all(out_.get(), bytes).ok());
  out_.reset();
  err_.reset();
  finish(pump);
  EXPECT_EQ(content(), bytes);
}

// How many descriptors the epoll instances of this process watch.
size_t count_watched() {
  size_t count = 0;
  const auto descriptors = list_directory("/proc/self/fdinfo");
  for (const std::string& fd : *descriptors) {
    const auto info = read_file("/proc/self/fdinfo/" + fd, size_t{1} << 20);
    if (!info) continue;
    for (size_t at = info->find("tfd:"); at != std::string::npos; at = info->find("tfd:", at + 1)) {
      ++count;
    }
  }
  return count;
}

// A process that was forked and has not yet become its program has every descriptor.
TEST_F(LogPumpTest, WatchesNoPipeThatEndedThoughAnotherProcessHoldsIt) {
  LogPump pump(ignore_problem);
  const size_t before = count_watched();
  const Fd held_out(::dup(stdout_read_.get()));
  const Fd held_err(::dup(stderr_read_.get()));
  start(pump);
  out_.reset();
  err_.reset();
  finish(pump);
  EXPECT_EQ(count_watched(), before);
}

TEST_F(LogPumpTest, DoesNotBreakALineOfOneStreamByTheOther) {
  LogPump pump(ignore_problem);
  start(pump);
  ASSERT_TRUE(write_all(out_.get(), "begin ").ok());
  ASSERT_TRUE(write_all(err_.get(), "warning\n").ok());
  ASSERT_TRUE(write_all(out_.get(), "end\n").ok());
  out_.reset();
  err_.reset();
  finish(pump);
  EXPECT_TRUE(content() == "begin end\nwarning\n" || content() == "warning\nbegin end\n")
      << content();
}

TEST_F(LogPumpTest, FinishesADrainThoughSomebodyHoldsThePipe) {
  LogPump pump(ignore_problem);
  start(pump);
  ASSERT_TRUE(write_all(out_.get(), "last words").ok());
  finish(pump);
  EXPECT_EQ(content(), "last words");
}

// As when the disk of the log hangs, or the machine has other things to do.
TEST_F(LogPumpTest, ReadsWhatIsInThePipesThoughItWasHeldUpBeyondTheLimitOfADrain) {
  Fd broken_read;
  Fd unused_read;
  const Fd broken = add_pipe(broken_read);
  const Fd unused = add_pipe(unused_read);
  auto full = RankLogWriter::open("/dev/full", directory_ + "/other", 0);
  if (!full.ok()) GTEST_SKIP() << "cannot open /dev/full as a log: " << full.error().message;
  std::promise<void> is_held_up;
  std::promise<void> go_on;
  LogPump pump([&](const std::string&) {  // on the pump's thread
    is_held_up.set_value();
    go_on.get_future().wait();
  });
  start(pump);
  pump.add(std::move(broken_read), std::move(unused_read), std::move(*full));
  std::promise<void> done;
  pump.drain([&] { done.set_value(); });
  ASSERT_TRUE(write_all(broken.get(), "cannot be written\n").ok());
  is_held_up.get_future().wait();
  ASSERT_GT(::fcntl(out_.get(), F_SETPIPE_SZ, LogPump::kPipeBytes), 0);
  const std::string words(LogPump::kPipeBytes, 'x');
  ASSERT_TRUE(write_all(out_.get(), words).ok());
  std::this_thread::sleep_for(LogPump::kDrainLimit);
  go_on.set_value();
  ASSERT_EQ(done.get_future().wait_for(std::chrono::seconds(120)), std::future_status::ready);
  EXPECT_EQ(content().size(), words.size());
}

TEST_F(LogPumpTest, CarriesAFloodOfOutputWhole) {
  LogPump pump(ignore_problem);
  start(pump);
  std::string line(999, 'x');
  line += '\n';
  constexpr int kLines = 64 * 1024;
  for (int i = 0; i < kLines; ++i) ASSERT_TRUE(write_all(out_.get(), line).ok());
  out_.reset();
  err_.reset();
  finish(pump);
  EXPECT_EQ(content().size(), line.size() * kLines);
}

TEST_F(LogPumpTest, KeepsTheIndexOfALogThatTheWorkerWritesItself) {
  LogPump pump(ignore_problem);
  auto writer = RankLogWriter::open(log(), directory_ + "/idx", 0, LogStream::kStderr);
  ASSERT_TRUE(writer.ok()) << writer.error().message;
  const Fd worker(::dup(writer->log_fd()));
  pump.add_direct(LogStream::kStderr, std::move(*writer));
  ASSERT_TRUE(write_all(worker.get(), "written\nby itself").ok());
  finish(pump);
  RankLogReader reader(log(), directory_ + "/idx");
  const auto chunks = reader.read(false);
  ASSERT_EQ(chunks.size(), 1U);
  EXPECT_EQ(chunks[0].bytes, "written\nby itself");
  EXPECT_EQ(chunks[0].stream, LogStream::kStderr);
  EXPECT_TRUE(reader.ended());
}

TEST_F(LogPumpTest, TellsOnceThatALogCannotBeWrittenAndReadsOn) {
  Fd full(::open("/dev/full", O_WRONLY));
  if (!full.valid()) GTEST_SKIP() << "no /dev/full";
  auto writer = RankLogWriter::open("/dev/full", directory_ + "/idx", 0);
  if (!writer.ok()) GTEST_SKIP() << "cannot open /dev/full as a log: " << writer.error().message;
  std::atomic<int> problems = 0;
  LogPump pump([&](const std::string&) { ++problems; });
  pump.add(std::move(stdout_read_), std::move(stderr_read_), std::move(*writer));
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(write_all(out_.get(), std::string(10'000, 'x')).ok());
  out_.reset();
  err_.reset();
  finish(pump);
  EXPECT_EQ(problems, 1);
}

}  // namespace
}  // namespace shanty
