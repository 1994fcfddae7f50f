#pragma once

#include <cstdint>

#include "base/result.h"
#include "os/fd.h"

namespace shanty::ckpt {

// The memory through which a trainer is given what it loads: a memfd that both map.
class Window {
 public:
  Window() = default;
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  // Makes room for `bytes`; true when the trainer must be given a new descriptor.
  Result<bool> reserve(uint64_t bytes);
  char* base() const { return base_; }
  int fd() const { return fd_.get(); }
  void release();

 private:
  Fd fd_;
  char* base_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace shanty::ckpt
