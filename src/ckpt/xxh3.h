#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace shanty::ckpt {

// XXH3-128 of bytes that come in parts.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  void add(std::string_view bytes);
  std::string hex_digest() const;  // 32 digits, of what was added so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string xxh3_hex(std::string_view bytes);

}  // namespace shanty::ckpt
