#include "ckpt/window.h"

#include <algorithm>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace shanty::ckpt {
namespace {

constexpr uint64_t kMinBytes = uint64_t{64} << 20;
constexpr uint64_t kMaxBytes = uint64_t{1} << 44;
constexpr uint64_t kPageBytes = 4096;

}  // namespace

Window::~Window() { release(); }

void Window::release() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
  base_ = nullptr;
  bytes_ = 0;
  fd_.reset();
}

Result<bool> Window::reserve(uint64_t bytes) {
  if (bytes <= bytes_ && base_ != nullptr) return false;
  if (bytes > kMaxBytes) return Error{"making the window for loading: that is too much"};
  const uint64_t size = std::max(kMinBytes, (bytes + kPageBytes - 1) / kPageBytes * kPageBytes);
  release();
  Fd fd(::memfd_create("shanty-load", MFD_CLOEXEC));
  if (!fd.valid()) return errno_error("making the window for loading (memfd_create)");
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) {
    return errno_error("sizing the window for loading");
  }
  void* base =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd.get(), 0);
  if (base == MAP_FAILED) return errno_error("mapping the window for loading");
  fd_ = std::move(fd);
  base_ = static_cast<char*>(base);
  bytes_ = size;
  return true;
}

}  // namespace shanty::ckpt
