#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace shanty::ckpt {

// Memory that this process will make present little by little, and that is counted as taken from
// the beginning. Thread-safe; what was not used is given back at the end.
class MemoryPromise {
 public:
  // An error that says what leaves how much where `bytes` would be more than may be made present
  // (read_memory_room): something would be killed for them, often the trainer. `what` begins the
  // error. `root` stands in for "/".
  static Result<MemoryPromise> make(uint64_t bytes, const std::string& what,
                                    const std::string& root = "");
  ~MemoryPromise();
  MemoryPromise(MemoryPromise&& other) noexcept;
  MemoryPromise& operator=(MemoryPromise&&) = delete;

  // That many more are present.
  void use(uint64_t bytes);

 private:
  explicit MemoryPromise(uint64_t bytes) : left_(bytes) {}
  uint64_t left_;
};

}  // namespace shanty::ckpt
