#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace shanty {

// What went wrong, as one sentence for the user: what was attempted, on what, what happened, what
// to do next. Lower case, no trailing full stop.
struct Error {
  std::string message;
};

// A value or an Error. Expected failures travel in this; bugs end the program through CHECK.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT: implicit by design
  Result(Error error) : state_(std::move(error)) {}  // NOLINT: implicit by design

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }

  T& value() & { return std::get<T>(state_); }
  const T& value() const& { return std::get<T>(state_); }
  // By value, so that `for (auto& x : f().value())` outlives f's result.
  T value() && { return std::get<T>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const { return std::get<Error>(state_); }

  // Puts "what: " before the message when this is an error; hands a value through unchanged.
  Result context(const std::string& what) && {
    if (ok()) return std::move(*this);
    return Error{what + ": " + error().message};
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit by design

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return *error_; }

  Result context(const std::string& what) && {
    if (ok()) return {};
    return Error{what + ": " + error_->message};
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

// Drops a result on purpose; `why` is for the reader.
template <typename T>
void discard(const Result<T>& /*result*/, const char* /*why*/) {}

// An Error from errno: "what: strerror". Reads errno at the call.
Error errno_error(const std::string& what);
Error errno_error(const std::string& what, int error_number);

}  // namespace shanty

// Yields the value of a Result, or returns its error from the enclosing function.
#define TRY(expr)                                      \
  __extension__({                                      \
    auto try_result_ = (expr);                         \
    if (!try_result_.ok()) return try_result_.error(); \
    std::move(try_result_).value();                    \
  })

#define TRY_STATUS(expr)                               \
  do {                                                 \
    auto try_status_ = (expr);                         \
    if (!try_status_.ok()) return try_status_.error(); \
  } while (false)
