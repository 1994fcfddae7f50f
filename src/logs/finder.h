#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

namespace shanty {

// Finds many literals at once (Hyperscan). Building takes some milliseconds; a finder is immutable
// and may be shared by threads, a scratch may not.
class Finder {
 public:
  // Needles are not empty and hold no newline.
  explicit Finder(const std::vector<std::string_view>& needles);
  ~Finder();
  Finder(const Finder&) = delete;
  Finder& operator=(const Finder&) = delete;

  // Calls `hit(needle, end)` for each place where a needle ends, ascending by `end`. One thread at
  // a time.
  using Hit = void (*)(void* context, uint32_t needle, size_t end);
  void scan(std::string_view text, Hit hit, void* context);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shanty
