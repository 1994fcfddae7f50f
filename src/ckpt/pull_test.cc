#include "ckpt/pull.h"

#include <algorithm>
#include <csignal>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty::ckpt {
namespace {

using ::testing::HasSubstr;

// A child with this process's memory, which changes nothing of its own.
class Child {
 public:
  Child() : pid_(::fork()) {
    if (pid_ != 0) return;
    ::pause();
    ::_exit(0);
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ended_ = std::exchange(pid_, 0);
  }
  pid_t pid() const { return pid_ > 0 ? pid_ : ended_; }

 private:
  pid_t pid_;
  pid_t ended_ = 0;
};

uint64_t address(const void* at) { return reinterpret_cast<uint64_t>(at); }

TEST(Pull, CopiesManyRunsOfAnySize) {
  std::vector<char> memory(9 << 20);
  std::iota(memory.begin(), memory.end(), '\0');
  const std::vector<char> original = memory;
  Child child;
  std::fill(memory.begin(), memory.end(), 'x');
  std::vector<char> copy(memory.size(), '-');
  std::vector<Pull> pulls = {{address(memory.data()), copy.data(), 5 << 20}};
  for (size_t at = 5 << 20; at < memory.size(); at += 3001) {
    const size_t bytes = std::min<size_t>(3001, memory.size() - at);
    pulls.push_back({address(memory.data()) + at, copy.data() + at, bytes});
  }
  pulls.push_back({address(memory.data()), copy.data(), 0});
  std::reverse(pulls.begin(), pulls.end());
  Arrival arrival;
  const Status done = pull_memory(child.pid(), pulls, 3, &arrival);
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(copy, original);
  const Status first_block = arrival.wait_for(copy.data() + (4 << 20));
  EXPECT_TRUE(first_block.ok()) << first_block.error().message;
  EXPECT_TRUE(may_pull(child.pid()));
}

TEST(Pull, MayBeTriedWhereTheLowestMemoryIsNotReadable) {
  void* low = ::mmap(reinterpret_cast<void*>(0x100000), 4096, PROT_NONE,  // NOLINT
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (low == MAP_FAILED) GTEST_SKIP() << "there is no room for a mapping below all others";
  Child child;
  EXPECT_TRUE(may_pull(child.pid()));
  ::munmap(low, 4096);
}

TEST(Pull, PushesMoreRunsThanOneCallTakes) {
  std::vector<char> memory(6 << 20);
  std::iota(memory.begin(), memory.end(), '\0');
  std::vector<char> copy(memory.size(), '-');
  std::vector<Push> pushes;
  for (size_t at = 0; at < memory.size(); at += 3001) {
    const size_t bytes = std::min<size_t>(3001, memory.size() - at);
    pushes.push_back({memory.data() + at, address(copy.data() + at), bytes});
  }
  const Status done = push_memory(::getpid(), pushes);
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(copy, memory);
}

TEST(Pull, SaysThatTheProcessHasEnded) {
  Child child;
  char byte = 0;
  const pid_t pid = child.pid();
  child.end();
  const Status done = pull_memory(pid, {{address(&byte), &byte, 1}}, 1);
  ASSERT_FALSE(done.ok());
  EXPECT_THAT(done.error().message, HasSubstr("it has ended"));
  EXPECT_FALSE(may_pull(pid));
}

TEST(Pull, AnAddressThatIsNotMappedIsAnError) {
  Child child;
  std::string copy(1 << 20, '\0');
  void* hole = ::mmap(nullptr, copy.size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_FALSE(pull_memory(child.pid(), {{address(hole), copy.data(), copy.size()}}, 2).ok());
  ::munmap(hole, copy.size());
}

}  // namespace
}  // namespace shanty::ckpt
