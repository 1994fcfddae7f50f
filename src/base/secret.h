#pragma once

#include <string>
#include <utility>

namespace shanty {

// A value that no message may show: it has no formatter and no stream operator, and reveal() marks
// each place where it leaves.
template <typename T>
class Secret {
 public:
  Secret() = default;
  explicit Secret(T value) : value_(std::move(value)) {}

  const T& reveal() const { return value_; }
  bool empty() const { return value_ == T{}; }
  friend bool operator==(const Secret&, const Secret&) = default;

 private:
  T value_{};
};

using SecretText = Secret<std::string>;

}  // namespace shanty
