#pragma once

namespace shanty {

// Prints the failed condition with its place to stderr and aborts: a bug, never a user's mistake.
[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace shanty

#define CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::shanty::check_failed(#condition, __FILE__, __LINE__))
