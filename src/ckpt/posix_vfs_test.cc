#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <future>
#include <string>
#include <thread>

#include <sys/resource.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/random.h"
#include "ckpt/arrival.h"
#include "ckpt/checked_file.h"
#include "ckpt/store.h"
#include "ckpt/xxh3.h"
#include "os/files.h"

namespace shanty::ckpt {
namespace {

using testing::HasSubstr;

// On the disk of temporary files and on tmpfs, which has its own mind about O_DIRECT.
class PosixVfsTest : public testing::TestWithParam<const char*> {
 protected:
  PosixVfsTest()
      : directory_(std::string(GetParam()) + "/shanty-vfs-" + hex(secure_random_bytes(6))) {
    std::filesystem::create_directories(directory_ + "/model");
  }
  ~PosixVfsTest() override { std::filesystem::remove_all(directory_); }

  std::string directory_;
};

INSTANTIATE_TEST_SUITE_P(Places, PosixVfsTest, testing::Values("/var/tmp", "/dev/shm"));

TEST_P(PosixVfsTest, AnImageOfAnySizeIsWrittenWithItsChecksums) {
  AlignedBuffer image((9 << 20) + kDataAlignment);
  Rng rng(1);
  for (size_t i = 0; i < image.size(); i += 8) {
    const uint64_t value = rng.next();
    std::memcpy(image.data() + i, &value, 8);
  }
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4096}, size_t{5000}, size_t{1} << 20,
                            (size_t{4} << 20) + 1, (size_t{9} << 20) + 17}) {
    for (const int threads : {1, 3}) {
      for (const bool aligned : {true, false}) {
        const std::string_view bytes(image.data() + (aligned ? 0 : 1), size);
        const auto stored =
            write_image(posix_vfs(), directory_, "model/x", 0, bytes, {}, {.threads = threads});
        ASSERT_TRUE(stored.ok()) << stored.error().message;
        EXPECT_EQ(stored->bytes, size);
        EXPECT_EQ(stored->xxh3, xxh3_hex(bytes));
        ASSERT_EQ(stored->crc32c.size(), (size + kChunkBytes - 1) / kChunkBytes);
        for (size_t i = 0; i < stored->crc32c.size(); ++i) {
          EXPECT_EQ(stored->crc32c[i], crc32c(bytes.substr(i * kChunkBytes, kChunkBytes)));
        }
        EXPECT_TRUE(read_file(directory_ + "/model/x", size + 1).value() == bytes);
        ASSERT_TRUE(posix_vfs().remove_file(directory_ + "/model/x").ok());
      }
    }
  }
}

TEST_P(PosixVfsTest, AnImageIsWrittenAsItArrives) {
  AlignedBuffer image(uint64_t{12} << 20);
  std::memset(image.data(), 'a', image.size());
  Arrival arrival;
  const WriteOptions options{.arrival = &arrival};
  const std::string_view bytes(image.data(), image.size());
  auto writing = std::async(std::launch::async, [&] {
    return write_image(posix_vfs(), directory_, "model/x", 0, bytes, {}, options);
  });
  const std::string path = directory_ + "/model/x";
  const size_t part = size_t{4} << 20;
  std::memset(image.data(), 'b', part);
  arrival.advance(image.data() + part);
  const auto written = [&] {
    const auto so_far = read_file(path, image.size());
    return so_far.ok() && so_far->size() >= part && so_far->at(part - 1) == 'b';
  };
  while (!written()) std::this_thread::yield();
  std::memset(image.data() + part, 'c', image.size() - part);
  arrival.finish({});
  const auto stored = writing.get();
  ASSERT_TRUE(stored.ok()) << stored.error().message;
  EXPECT_EQ(stored->xxh3, xxh3_hex(bytes));
  EXPECT_TRUE(read_file(path, image.size()).value() == bytes);
}

TEST_P(PosixVfsTest, AnImageThatIsNeverThereLeavesNoFile) {
  AlignedBuffer image(uint64_t{12} << 20);
  Arrival arrival;
  arrival.advance(image.data() + (size_t{4} << 20));
  arrival.finish(Error{"the trainer has ended"});
  const WriteOptions options{.arrival = &arrival};
  const auto stored =
      write_image(posix_vfs(), directory_, "model/x", 0, {image.data(), image.size()}, {}, options);
  EXPECT_EQ(stored.error().message, "the trainer has ended");
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/model/x"));
}

TEST_P(PosixVfsTest, AnExistingFileIsNeitherOverwrittenNorRemoved) {
  ASSERT_TRUE(
      write_image(posix_vfs(), directory_, "model/x", 0, "old", {}, {.direct = false}).ok());
  EXPECT_FALSE(
      write_image(posix_vfs(), directory_, "model/x", 0, "new", {}, {.direct = false}).ok());
  EXPECT_EQ(read_file(directory_ + "/model/x", 10).value(), "old");
}

TEST_P(PosixVfsTest, AWriteThatEndsShortIsAnErrorAndLeavesNoFile) {
  struct rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const struct rlimit limit{.rlim_cur = 5000, .rlim_max = before.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto stored = write_image(posix_vfs(), directory_, "model/x", 0, std::string(20'000, 'x'),
                                  {}, {.direct = false});
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  ASSERT_FALSE(stored.ok());
  EXPECT_THAT(stored.error().message, HasSubstr("File too large"));
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/model/x"));
}

TEST_P(PosixVfsTest, TheRateIsKeptAndACancelledSaveLeavesNoFile) {
  const std::string bytes(12 << 20, 'x');
  const TimePoint start = system_clock().now();
  RateLimit limit;
  limit.set_rate(64 << 20);
  for (const char* path : {"model/x", "model/z"}) {
    const WriteOptions options{.direct = false, .limit = &limit};
    ASSERT_TRUE(write_image(posix_vfs(), directory_, path, 0, bytes, {}, options).ok());
  }
  // Both files together, of which the first 4 MiB go at once.
  EXPECT_GE(to_seconds(system_clock().now() - start), 0.3);
  const std::atomic<bool> cancel{true};
  const auto stored = write_image(posix_vfs(), directory_, "model/y", 0, bytes, {},
                                  {.direct = false, .cancel = &cancel});
  EXPECT_THAT(stored.error().message, HasSubstr("cancelled"));
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/model/y"));
}

TEST_P(PosixVfsTest, ErrorsNameWhatWasTriedAndWhere) {
  const std::string missing = directory_ + "/no/file";
  EXPECT_THAT(posix_vfs().open(missing, {}).error().message,
              AllOf(HasSubstr("opening"), HasSubstr(missing), HasSubstr("No such file")));
  EXPECT_THAT(posix_vfs().rename(missing, directory_ + "/x").error().message, HasSubstr(missing));
  EXPECT_THAT(posix_vfs().make_directory(directory_).error().message, HasSubstr("File exists"));
  EXPECT_THAT(posix_vfs().sync_directory(missing).error().message, HasSubstr("No such file"));
  EXPECT_FALSE(posix_vfs().info(missing)->exists);
}

TEST_P(PosixVfsTest, LinksAreReplacedInOneStep) {
  const std::string link = directory_ + "/latest";
  ASSERT_TRUE(posix_vfs().replace_link(link, "a").ok());
  ASSERT_TRUE(posix_vfs().replace_link(link, "b").ok());
  EXPECT_EQ(std::filesystem::read_symlink(link), "b");
  EXPECT_EQ(posix_vfs().list(directory_).value(), (std::vector<std::string>{"latest", "model"}));
}

}  // namespace
}  // namespace shanty::ckpt
